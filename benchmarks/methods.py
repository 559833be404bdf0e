"""Every method on the same streams: runs them into run folders, and writes the tables of docs/methods.md from those.

    python benchmarks/methods.py run --data FOLDER [--runs runs/methods] [--dataset NAME …] [--method NAME …]
    python benchmarks/methods.py speed --data FOLDER [--speed-runs runs/methods-speed]
    python benchmarks/methods.py table [--runs runs/methods] [--speed-runs runs/methods-speed] [--page docs/methods.md]

`run` goes through methods × {digits, cora_ml, amazon_computers} × {CIL, TIL}: SGC, 60 rows per class (digits 20),
200 epochs, three seeds. Runs that are already there are not repeated. FOLDER holds cora_ml.npz and
amazon_computers.npz.
`speed` runs each method for 20 epochs in one setting, one after the other, for the ratios to Fine-tune's training time.
`table` replaces what stands between the markers of the page; no number is typed.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from delome.experiment import RunConfig, RunFolder, run
from delome.methods import METHODS

DATASETS = ("digits", "cora_ml", "amazon_computers")
OWN_EPOCHS = {"hpns", "puma"}
BASELINES = [(memory, loss) for memory in ("raw", "propagated", "kmeans") for loss in ("plain", "balanced", "debiased")]


def experiments() -> dict[str, tuple[str, list[str]]]:
    """Name of a row → method and its changed parameters."""
    rows = {name: (name, list[str]()) for name in METHODS if name != "replay"}
    for memory, loss in BASELINES:
        rows[f"replay {memory} × {loss}"] = ("replay", [f"memory={memory}", f"loss={loss}"])
    return rows


def folder_of(runs: Path, name: str, dataset: str, setting: str) -> Path:
    return runs / f"{dataset}-{setting}-{name.replace(' × ', '-').replace(' ', '-')}"


def run_all(arguments: argparse.Namespace, runs: Path, epochs: int, settings: int, seeds: int) -> None:
    """Runs whatever is not there yet, in the first so many settings of each method."""
    warm_up = RunConfig.resolve("synthetic:nodes=200,classes=4", "delome", epochs=1)
    run(warm_up, warm_up.stream())
    for dataset in arguments.dataset:
        source = dataset if dataset == "digits" else f"file:{arguments.data / dataset}.npz"
        for name, (method, assignments) in experiments().items():
            if method not in arguments.method:
                continue
            for setting in METHODS[method].settings[:settings]:
                path = folder_of(runs, name, dataset, setting)
                if sum(result["finished"] for result in results_of(path)) >= seeds:
                    continue
                config = RunConfig.resolve(
                    source,
                    method,
                    setting=setting,
                    budget=20 if dataset == "digits" else 60,
                    epochs=epochs if method not in OWN_EPOCHS or epochs < 200 else None,
                    assignments=assignments,
                    seeds=seeds,
                )
                stream = config.stream()
                with RunFolder.open(path, config, stream) as folder:
                    result = run(config, stream, folder)
                print(f"{path.name}: AA {result.aa[0]:.2f}", file=sys.stderr, flush=True)


def table(runs: Path, speed_runs: Path, dataset: str, names: list[str]) -> list[str]:
    """Markdown table of one dataset."""
    results = {
        (name, setting): found
        for name in names
        for setting in ("cil", "til")
        if (found := results_of(folder_of(runs, name, dataset, setting)))
    }
    lines = [
        "| method | CIL AA | AF | TIL AA | AF | seconds | training × Fine-tune | memory, s | bytes kept |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    base = _speed(speed_runs, "finetune", dataset)
    for name in names:
        shown = results.get((name, "cil")) or results.get((name, "til"))
        if shown is None:
            continue
        cells = [f"`{name}`"]
        for setting in ("cil", "til"):
            own_results = results.get((name, setting), [])
            cells += [_cell(own_results, "aa", ""), _cell(own_results, "af", "+")] if own_results else ["–"] * 2
        learning = [sum(seconds for phase, seconds in each["seconds"].items() if phase != "evaluate") for each in shown]
        cells.append(f"{mean(learning):.0f}")
        own = _speed(speed_runs, name, dataset)
        if own is None or base is None:
            cells += ["–"] * 2
        else:
            cells += [f"{_training(own) / _training(base):.1f}", f"{own['memory']:.1f}" if own.get("memory") else "–"]
        lines.append("| " + " | ".join([*cells, f"{shown[0]['memory']['bytes']:,}"]) + " |")
    return lines


def results_of(folder: Path) -> list[dict[str, Any]]:
    """What each seed of a run has measured."""
    return [json.loads(file.read_text()) for file in sorted(folder.glob("seed-*/result.json"))]


def _cell(found: list[dict[str, Any]], metric: str, sign: str) -> str:
    """Mean, and standard deviation of several seeds."""
    values = [result[metric] for result in found]
    spread = f" ± {stdev(values):.1f}" if len(values) > 1 else ""
    return f"{mean(values):{sign}.1f}{spread}".replace("-", "−")


def _speed(speed_runs: Path, name: str, dataset: str) -> dict[str, float] | None:
    """Seconds by phase of a method's short run in its first setting, if it is there."""
    setting = METHODS[experiments()[name][0]].settings[0]
    found = results_of(folder_of(speed_runs, name, dataset, setting))
    return dict(found[0]["seconds"]) if found else None


def _training(seconds: dict[str, float]) -> float:
    """Training and importances, not preparing inputs or building memories."""
    return seconds["train"] + seconds.get("importance", 0.0)


def _filled(page: str, dataset: str, text: str) -> tuple[str, int]:
    """A page with a text between the markers of a dataset, and how many such markers it has."""
    pattern = rf"(<!-- {dataset}: [^\n]* -->\n)(?:(?!<!-- end).)*(<!-- end -->)"
    return re.subn(pattern, lambda match: f"{match[1]}{text}\n{match[2]}", page, flags=re.DOTALL)


def write_page(arguments: argparse.Namespace) -> None:
    page = arguments.page.read_text()
    for dataset in DATASETS:
        text = "\n".join(table(arguments.runs, arguments.speed_runs, dataset, list(experiments())))
        page, found = _filled(page, dataset, text)
        if not found:
            sys.exit(f"{arguments.page} has no markers for {dataset}")
    arguments.page.write_text(page)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("run", "speed", "table"))
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--runs", type=Path, default=Path("runs/methods"))
    parser.add_argument("--speed-runs", type=Path, default=Path("runs/methods-speed"))
    parser.add_argument("--page", type=Path, default=Path("docs/methods.md"))
    parser.add_argument("--dataset", nargs="+", choices=DATASETS, default=list(DATASETS))
    parser.add_argument("--method", nargs="+", choices=METHODS, default=list(METHODS))
    arguments = parser.parse_args()
    if arguments.action == "run":
        run_all(arguments, arguments.runs, epochs=200, settings=2, seeds=3)
    elif arguments.action == "speed":
        run_all(arguments, arguments.speed_runs, epochs=20, settings=1, seeds=1)
    else:
        write_page(arguments)


if __name__ == "__main__":
    main()
