"""Whole runs of DeLoMe against the algorithm as the paper prints it, in one process and on one thread.

    python benchmarks/side_by_side.py --dataset file:PATH [--budget 60] [--epochs 200] [--seeds 3] [--json] [--quick]
    python benchmarks/side_by_side.py --tables FILE    # documents of --json, one a line

literal   memory by Algorithm 1 (800 random networks, automatic differentiation; timed on a few networks and scaled),
          training in batches of 2,000 that replay the whole memory
passes    the same training, memory learned in closed form
drawn     rows drawn for each step: the defaults
columns   the same on 512 random columns
bytes     the same on 512 random columns with as many rows as fit into the bytes of `drawn`

Printed are seconds by phase, AA on validation and test nodes (mean ± standard deviation over seeds), bytes kept, and
how many times faster than `literal` and than `passes` each is. `--quick` takes a minute, to see that it runs.
`--tables` prints the Markdown tables of docs/training.md.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import torch

from delome import TaskStream, load_graph
from delome.experiment import RunConfig, run
from memory_learning import NETWORKS, literal_seconds

PASSES = ["passes=true", "batch_size=2000", "replayed=none"]
COLUMNS = 512
VARIANTS = ("passes", "drawn", "columns", "bytes")


Figures = dict[str, Any]


def measured(dataset: str, budget: int, epochs: int, seeds: int, assignments: list[str]) -> Figures:
    """Seconds of a seed by phase, accuracies, and bytes kept."""
    config = RunConfig.resolve(dataset, "delome", budget=budget, epochs=epochs, seeds=seeds, assignments=assignments)
    result = run(config, config.stream()).as_dict()
    on_validation = [
        np.mean([each for each in matrix[-1] if each is not None]) for matrix in result["validation_matrices"]
    ]
    return {
        "budget": budget,
        "seconds": {phase: seconds / seeds for phase, seconds in result["seconds"].items()},
        "validation_aa": [float(np.mean(on_validation)), float(np.std(on_validation, ddof=1)) if seeds > 1 else 0.0],
        "aa": [result["aa"], result["aa_std"] or 0.0],
        "bytes": result["memory"]["bytes"],
    }


def literal(dataset: str, budget: int, networks: int, passes: Figures) -> Figures:
    """Memories by the printed algorithm, and the training of ``passes``."""
    stream = TaskStream(load_graph(dataset))
    seen = np.cumsum([len(task.classes) for task in stream])
    seconds = [literal_seconds(task, int(seen[task.index]), budget, networks) for task in stream]
    return {"seconds": passes["seconds"] | {"memory": sum(seconds) * NETWORKS / networks}, "bytes": passes["bytes"]}


def compared(dataset: str, budget: int, epochs: int, seeds: int, networks: int) -> dict[str, Figures]:
    """Every variant, with its ratios."""
    columns = [f"columns={COLUMNS}"]
    rows = {
        "passes": measured(dataset, budget, epochs, seeds, PASSES),
        "drawn": measured(dataset, budget, epochs, seeds, []),
        "columns": measured(dataset, budget, epochs, seeds, columns),
    }
    more = round(budget * rows["drawn"]["bytes"] / rows["columns"]["bytes"])
    rows["bytes"] = measured(dataset, more, epochs, seeds, columns)
    rows = {"literal": literal(dataset, budget, networks, rows["passes"])} | rows
    for row in rows.values():
        row["total"] = sum(row["seconds"].values())
    for row in rows.values():
        row |= {f"times_{name}": rows[name]["total"] / row["total"] for name in ("literal", "passes")}
    return rows


def tables(documents: list[dict[str, Any]]) -> str:
    """Accuracies of every variant on validation and on test nodes, and what they cost, as Markdown."""
    found = []
    for key in ("validation_aa", "aa"):
        found += [f"| {key} | passes | drawn | columns | as many bytes |", "|---|---:|---:|---:|---:|"]
        found += [
            f"| {short(each['dataset'])} | "
            + " | ".join("{:.2f} ± {:.2f}".format(*each["runs"][name][key]) for name in VARIANTS)
            + " |"
            for each in documents
        ]
        found.append("")
    found += [
        "| | memory: literal / ours | whole run: literal / passes | literal / drawn | passes / drawn "
        "| passes / columns | bytes: drawn / columns |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for each in documents:
        runs = each["runs"]
        ratios = [
            runs["literal"]["seconds"]["memory"] / runs["drawn"]["seconds"]["memory"],
            runs["passes"]["times_literal"],
            runs["drawn"]["times_literal"],
            runs["drawn"]["times_passes"],
            runs["columns"]["times_passes"],
            runs["drawn"]["bytes"] / runs["columns"]["bytes"],
        ]
        found.append(f"| {short(each['dataset'])} | " + " | ".join(f"{ratio:.1f}" for ratio in ratios) + " |")
    return "\n".join(found)


def short(dataset: str) -> str:
    """A dataset without its path."""
    return re.sub(r"^file:(.*/)?|\.npz$", "", dataset)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dataset", default="digits")
    parser.add_argument("--budget", type=int, default=60)
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--literal-networks", type=int, default=10, help="networks the literal algorithm is timed on")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true", help="a minute: few epochs, one seed")
    parser.add_argument("--tables", type=Path, help="print tables of documents that were kept, and run nothing")
    arguments = parser.parse_args()
    if arguments.tables:
        print(tables([json.loads(line) for line in arguments.tables.read_text().splitlines()]))
        return
    if arguments.quick:
        arguments.epochs, arguments.seeds, arguments.literal_networks = 10, 1, 2
    torch.set_num_threads(1)
    # the first run of a process pays for lazy initialisation and is not counted
    measured("synthetic:nodes=200,classes=4", 2, 1, 1, [])
    dataset, budget, epochs, seeds = arguments.dataset, arguments.budget, arguments.epochs, arguments.seeds
    rows = compared(dataset, budget, epochs, seeds, arguments.literal_networks)
    if arguments.json:
        print(json.dumps({"dataset": dataset, "budget": budget, "epochs": epochs, "seeds": seeds, "runs": rows}))
        return
    print(f"{dataset}, {budget} rows per class, {epochs} epochs, {seeds} seeds, CIL, SGC, one thread")
    print(
        f"{'':8}{'total s':>9}{'train':>8}{'memory':>8}{'× literal':>11}{'× passes':>10}{'bytes':>13}  AA val, AA test"
    )
    for name, row in rows.items():
        scores = [f"{row[key][0]:6.2f} ± {row[key][1]:.2f}" for key in ("validation_aa", "aa") if key in row]
        print(
            f"{name:8}{row['total']:9.1f}{row['seconds']['train']:8.1f}{row['seconds']['memory']:8.1f}"
            f"{row['times_literal']:11.1f}{row['times_passes']:10.1f}{row['bytes']:13,}  {', '.join(scores)}"
        )


if __name__ == "__main__":
    main()
