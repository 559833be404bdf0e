"""Whole streams: seconds by phase, AA, AF and bytes kept, for the bounds, both DeLoMe memories and Analytic.

    python benchmarks/end_to_end.py --dataset file:PATH --budget 60 [--epochs 200] [--seeds 1] [--only NAME …] [--json]

Ratios are against Fine-tune's total seconds of the same run (`times_finetune`).
"""

from __future__ import annotations

import argparse
import json
import sys

from delome.experiment import RunConfig, run

VARIANTS = {
    "finetune": ("finetune", []),
    "joint": ("joint", []),
    "delome-sampled": ("delome", ["memory=gradient-matching"]),
    "delome-exact": ("delome", ["memory=kernel-matching"]),
    "analytic": ("analytic", []),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dataset", default="digits")
    parser.add_argument("--budget", type=int, default=60)
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--only", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    # the first run of a process pays for lazy initialisation and is not counted
    warm_up = RunConfig.resolve("synthetic:nodes=200,classes=4", "delome", epochs=1)
    run(warm_up, warm_up.stream())
    rows = {}
    for name in arguments.only:
        method, assignments = VARIANTS[name]
        config = RunConfig.resolve(
            arguments.dataset,
            method,
            budget=arguments.budget,
            epochs=arguments.epochs,
            seeds=arguments.seeds,
            assignments=assignments,
        )
        print(f"running {name}", file=sys.stderr)
        result = run(config, config.stream()).as_dict()
        reports = result["reports"]
        rows[name] = {
            "aa": result["aa"],
            "aa_std": result["aa_std"],
            "af": result["af"],
            "seconds": result["seconds"] | {"total": sum(result["seconds"].values())},
            "bytes": result["memory"]["bytes"],
            "relative_loss": reports.get("relative_loss"),
        }
    if "finetune" in rows:
        for row in rows.values():
            row["times_finetune"] = row["seconds"]["total"] / rows["finetune"]["seconds"]["total"]
    if arguments.json:
        print(
            json.dumps(
                {"dataset": arguments.dataset, "budget": arguments.budget, "epochs": arguments.epochs, "runs": rows}
            )
        )
        return
    print(
        f"{arguments.dataset}, budget {arguments.budget}, {arguments.epochs} epochs, {arguments.seeds} seeds, CIL, SGC"
    )
    print(f"{'':16}{'AA':>7}{'AF':>8}{'total s':>9}{'train':>8}{'memory':>8}{'eval':>7}{'bytes':>13}{'loss':>9}")
    for name, row in rows.items():
        seconds = row["seconds"]
        loss = "" if row["relative_loss"] is None else f"{row['relative_loss']:9.4f}"
        print(
            f"{name:16}{row['aa']:7.2f}{row['af']:8.2f}{seconds['total']:9.1f}{seconds.get('train', 0):8.1f}"
            f"{seconds.get('memory', 0):8.1f}{seconds['evaluate']:7.1f}{row['bytes']:13,}{loss}"
        )


if __name__ == "__main__":
    main()
