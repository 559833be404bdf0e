"""What privacy costs in accuracy, and what memories give away.

    python benchmarks/privacy.py accuracy --data FOLDER [--dataset NAME …] [--results FILE]
    python benchmarks/privacy.py table [--results FILE]

`accuracy` appends a line of JSON to FILE for every run that it does not hold yet: AA of the private learner by ε, of 3
seeds of projection and noise on each of 3 splits, beside the non-private analytic learner. `table` prints Markdown.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from delome.datasets import load_graph
from delome.learning import METHODS
from delome.streams.task_stream import TaskStream

DATASETS = ("coauthor_cs", "amazon_computers", "cora70")
SEEDS = SPLITS = 3
EPSILONS = ("1", "4", "8", "inf")
LEARNERS: dict[str, dict[str, Any]] = {
    "analytic": {},
    **{f"private, ε = {each}": {"epsilon": each if each == "inf" else float(each)} for each in EPSILONS},
    **{
        f"private, ε = {each}, 2 hops": {"epsilon": each if each == "inf" else float(each), "hops": 2}
        for each in ("4", "inf")
    },
}


def streams(arguments: argparse.Namespace) -> Iterator[tuple[str, int, TaskStream]]:
    for dataset in arguments.dataset:
        graph = load_graph(f"file:{arguments.data / dataset}.npz")
        for split in range(SPLITS):
            yield dataset, split, TaskStream(graph, split_seed=split)


def read(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def append(file: Path, row: dict[str, Any]) -> None:
    with file.open("a") as lines:
        lines.write(json.dumps(row, ensure_ascii=False) + "\n")
    print(row, flush=True)


def accuracies(learner: Any, stream: TaskStream) -> dict[str, float]:
    for task in stream:
        learner.observe(task)
    return {
        name: round(mean(score.balanced for score in learner.score(stream, split)), 3)
        for name, split in (("aa", "test"), ("validation_aa", "val"))
    }


def accuracy(arguments: argparse.Namespace) -> None:
    keys = ("dataset", "split", "learner", "seed")
    done = {tuple(row[key] for key in keys) for row in read(arguments.results) if row["kind"] == "accuracy"}
    for dataset, split, stream in streams(arguments):
        for name, parameters in LEARNERS.items():
            for seed in range(SEEDS if name != "analytic" else 1):
                if (dataset, split, name, seed) in done:
                    continue
                method = METHODS[name.partition(",")[0]]
                learner = method(seed=seed, **method.repeats_with, **parameters)
                row = {"kind": "accuracy", "dataset": dataset, "split": split, "learner": name, "seed": seed}
                append(arguments.results, row | accuracies(learner, stream))


def table(arguments: argparse.Namespace) -> None:
    print("\n".join(accuracy_table(read(arguments.results))))


def accuracy_table(rows: list[dict[str, Any]]) -> list[str]:
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row in rows:
        if row["kind"] == "accuracy":
            found[row["learner"], row["dataset"]].append(row["aa"])
    datasets = list(dict.fromkeys(dataset for _, dataset in found))
    lines = [f"| AA | {' | '.join(datasets)} |", "|---" * (len(datasets) + 1) + "|"]
    for learner in dict.fromkeys(learner for learner, _ in found):
        cells = [found.get((learner, dataset), []) for dataset in datasets]
        lines.append(f"| {learner} | {' | '.join(in_short(cell) for cell in cells)} |")
    return lines


def in_short(values: list[float]) -> str:
    if not values:
        return "–"
    return f"{mean(values):.1f} ± {stdev(values):.1f}" if len(values) > 1 else f"{values[0]:.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    for name, command in (("accuracy", accuracy), ("table", table)):
        own = commands.add_parser(name)
        own.set_defaults(command=command)
        own.add_argument("--results", type=Path, default=Path(__file__).parent / "results/privacy.jsonl")
        if command is not table:
            own.add_argument("--data", type=Path, required=True)
            own.add_argument("--dataset", nargs="+", default=DATASETS, choices=DATASETS)
    arguments = parser.parse_args()
    arguments.command(arguments)


if __name__ == "__main__":
    main()
