"""What privacy costs in accuracy, and what memories give away.

    python benchmarks/privacy.py accuracy --data FOLDER [--dataset NAME …] [--results FILE]
    python benchmarks/privacy.py leaks --data FOLDER [--dataset NAME …] [--results FILE]
    python benchmarks/privacy.py power --data FOLDER [--dataset NAME …] [--results FILE]
    python benchmarks/privacy.py table [--results FILE] [--page FILE]
    python benchmarks/privacy.py figure [--results FILE] [--out FILE]

The first three append a line of JSON to FILE for every run that it does not hold yet. `accuracy`: AA of the private
learner by ε, of 3 seeds of projection and noise on each of 3 splits, beside the non-private analytic learner. `leaks`:
AA and the audit of memories, on 512 random columns of the features, which is faster and not what a table of accuracies
would use, 100 epochs, one seed. `power`: for 20 seeds, what an audit finds in a memory of copied nodes and in one of
noise, and how often it says of copied nodes that no leak was found. `table` writes the
tables of docs/privacy.md, `figure` its picture.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np

from delome.datasets import load_graph
from delome.learning import METHODS
from delome.memories import Context, Memory, MemoryBuilder
from delome.privacy import audit
from delome.privacy.audit import LEAK, NO_LEAK, PLANTS
from delome.streams.task_stream import TaskStream
from delome.streams.tasks import Observation

DATASETS = ("coauthor_cs", "amazon_computers", "cora70")
OTHERS = ("cora_ml", "digits")
"""Graphs that are measured if they are named."""
SEEDS = SPLITS = 3
POWER_SEEDS = 20
EPSILONS = ("1", "4", "8", "inf")
LEARNERS: dict[str, dict[str, Any]] = {
    "analytic": {},
    **{f"private, ε = {each}": {"epsilon": each if each == "inf" else float(each)} for each in EPSILONS},
    **{
        f"private, ε = {each}, 2 hops": {"epsilon": each if each == "inf" else float(each), "hops": 2}
        for each in ("4", "inf")
    },
}

SMALL: dict[str, Any] = {"columns": 512, "epochs": 100}
BUDGETS = (20, 60)
MEMORIES: dict[str, dict[str, Any]] = {
    "ergnn": {},
    "ssm-uniform": {},
    "cat": {},
    "delome, mixture (default)": {},
    "delome, noise": {"init": "noise"},
    "delome, propagated": {"init": "propagated"},
    "delome, raw (sampled, as in the paper)": {"memory": "gradient-matching"},
    "delome, private-moments, ε = 4": {"memory": "private-moments", "epsilon": 4.0, "noise": "seed"},
    "delome, private-means, ε = 4": {"memory": "private-means", "epsilon": 4.0, "noise": "seed"},
    "delome, private-moments, ε = inf": {"memory": "private-moments", "epsilon": "inf", "noise": "seed"},
    "cat, private-moments, ε = 1": {"memory": "private-moments", "epsilon": 1.0, "noise": "seed"},
    "cat, private-moments, ε = 4": {"memory": "private-moments", "epsilon": 4.0, "noise": "seed"},
    "cat, private-means, ε = 4": {"memory": "private-means", "epsilon": 4.0, "noise": "seed"},
    "cat, private-moments, ε = inf": {"memory": "private-moments", "epsilon": "inf", "noise": "seed"},
}
WITHOUT_MEMORY: dict[str, dict[str, Any]] = {
    "finetune": SMALL,
    "analytic": {},
    **{f"private, ε = {each}": LEARNERS[f"private, ε = {each}"] | {"noise": "seed"} for each in ("1", "4", "8")},
}


class Noise(MemoryBuilder):
    """Rows that know nothing of any node."""

    def build(self, observation: Observation, context: Context) -> Memory:
        count = self.budget * len(observation.classes)
        rows = context.rng.standard_normal((count, observation.graph.num_features), dtype=np.float32)
        return Memory.of_rows(observation.index, rows, np.repeat(observation.classes, self.budget))


def streams(arguments: argparse.Namespace) -> Iterator[tuple[str, int, TaskStream]]:
    for dataset in arguments.dataset:
        graph = load_graph(dataset if dataset == "digits" else f"file:{arguments.data / dataset}.npz")
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


def leaks(arguments: argparse.Namespace) -> None:
    keys = ("dataset", "learner", "budget")
    done = {tuple(row[key] for key in keys) for row in read(arguments.results) if row["kind"] == "leaks"}
    wanted: list[tuple[str, int | None, dict[str, Any]]] = [
        (name, None, given) for name, given in WITHOUT_MEMORY.items()
    ]
    wanted += [(name, b, SMALL | given | {"budget": b}) for b in BUDGETS for name, given in MEMORIES.items()]
    for dataset, split, stream in streams(arguments):
        for name, budget, parameters in wanted if split == 0 else []:
            asked = not arguments.learner or any(each in name for each in arguments.learner)
            if not asked or (dataset, name, budget) in done:
                continue
            learner = METHODS[name.partition(",")[0]](**parameters)
            found = accuracies(learner, stream)
            report = audit(learner, stream).as_dict()
            attacks = {where: report[where] for where in ("raw", "propagated", "model") if where in report}
            row = {"kind": "leaks", "dataset": dataset, "learner": name, "budget": budget, **found}
            append(arguments.results, row | attacks)


def power(arguments: argparse.Namespace) -> None:
    keys = ("dataset", "memory", "seed")
    done = {tuple(row[key] for key in keys) for row in read(arguments.results) if row["kind"] == "power"}
    builders = {"copied nodes": "propagated", "noise": Noise()}
    for dataset, split, stream in streams(arguments):
        for seed in range(POWER_SEEDS) if split == 0 else []:
            for name, memory in builders.items():
                if (dataset, name, seed) in done:
                    continue
                learner = METHODS["replay"](memory=memory, budget=20, columns=512, epochs=1, seed=seed)
                accuracies(learner, stream)
                found = audit(learner, stream, seed=seed).findings["propagated"]
                row = {"kind": "power", "dataset": dataset, "memory": name, "seed": seed, "plants": PLANTS}
                verdicts = {attack: [each.verdict, round(each.measure.value, 4)] for attack, each in found.items()}
                append(arguments.results, row | {"found": verdicts})


def table(arguments: argparse.Namespace) -> None:
    rows = read(arguments.results)
    made = {"accuracy": accuracy_table(rows), "leaks": leak_table(rows), "power": power_table(rows)}
    if arguments.page is None:
        print("\n\n".join("\n".join(lines) for lines in made.values()))
        return
    text = arguments.page.read_text()
    for name, lines in made.items():
        place = re.compile(rf"(<!-- {name}: .*? -->\n).*?(<!-- end -->)", re.DOTALL)
        if not place.search(text):
            raise SystemExit(f"'{arguments.page}' has no markers for {name}")
        content = "\n".join(lines) + "\n"
        text = place.sub(lambda found, content=content: found[1] + content + found[2], text)  # type: ignore[misc]
    arguments.page.write_text(text)


def leak_table(rows: list[dict[str, Any]]) -> list[str]:
    lines = [
        "| graph | learner | rows per class | AA | re-identified, raw / propagated (chance) | closer to training (0.5) "
        "| membership AUC of the memory, propagated | of the model |",
        "|---" * 8 + "|",
    ]

    def value(row: dict[str, Any], where: str, name: str) -> str:
        if name not in row.get(where, {}):
            return "–"
        found = row[where][name]
        return f"**{found['value']:.2f}**" if found["verdict"] == LEAK else f"{found['value']:.2f}"

    for row in sorted((row for row in rows if row["kind"] == "leaks"), key=in_table):
        identified = f"{value(row, 'raw', 'reidentified')} / {value(row, 'propagated', 'reidentified')}"
        if "reidentified" in row.get("raw", {}):
            identified += f" ({row['raw']['reidentified']['control']:.3f})"
        budget = row["budget"] or "–"
        others = [
            value(row, "propagated", "closer_to_training"),
            value(row, "propagated", "membership_auc"),
            value(row, "model", "membership_auc"),
        ]
        cells = [row["dataset"], row["learner"], str(budget), f"{row['aa']:.1f}", identified, *others]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def in_table(row: dict[str, Any]) -> tuple[int, int, int]:
    """Place in the table: by graph, rows per class and learner, however they were measured."""
    known, learners = (*DATASETS, *OTHERS), (*WITHOUT_MEMORY, *MEMORIES)
    return known.index(row["dataset"]), row["budget"] or 0, learners.index(row["learner"])


def power_table(rows: list[dict[str, Any]]) -> list[str]:
    """In how many seeds a leak was found; of rows that say how many leaks were planted, also how often a memory of
    copied nodes was taken for one without a leak. (Others are of audits that planted one.)"""
    found: dict[tuple[str, str, str], list[bool]] = defaultdict(list)
    values: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    missed: dict[tuple[str, str, str], list[bool]] = defaultdict(list)
    for row in rows:
        for attack, (verdict, value) in row.get("found", {}).items():
            key = attack, row["dataset"], row["memory"]
            found[key].append(verdict == LEAK)
            values[key].append(value)
            if "plants" in row and row["memory"] == "copied nodes":
                missed[key].append(verdict == NO_LEAK)
    datasets = list(dict.fromkeys(dataset for _, dataset, _ in found))
    memories = ("copied nodes", "noise")
    header = [f"{dataset}, {memory}" for dataset in datasets for memory in memories]
    lines = [f"| leak found in (mean value) | {' | '.join(header)} |", "|---" * (len(header) + 1) + "|"]
    for attack in dict.fromkeys(attack for attack, _, _ in found):
        keys = [(attack, dataset, memory) for dataset in datasets for memory in memories]
        cells = [
            f"{sum(found[key])} of {len(found[key])} ({mean(values[key]):.2f})"
            + (f", {sum(missed[key])} missed" if missed[key] else "")
            if found[key]
            else "–"
            for key in keys
        ]
        lines.append(f"| `{attack}` | {' | '.join(cells)} |")
    return lines


def figure(arguments: argparse.Namespace) -> None:
    """AA against what is given away: each learner a point, of each graph a row of pictures."""
    from matplotlib.figure import Figure

    rows = [row for row in read(arguments.results) if row["kind"] == "leaks" and row["budget"] in (None, 20)]
    datasets = list(dict.fromkeys(row["dataset"] for row in rows))
    panels = {
        "rows re-identified (propagated space)": ("propagated", "reidentified"),
        "membership AUC of the memory": ("propagated", "membership_auc"),
        "membership AUC of the model": ("model", "membership_auc"),
    }
    drawn = Figure(figsize=(4.2 * (len(panels) + 1), 3.9 * len(datasets)), layout="constrained")
    grid = drawn.subplots(len(datasets), len(panels) + 1, squeeze=False)
    every = [row for row in read(arguments.results) if row["kind"] == "accuracy"]
    learners = list(dict.fromkeys(row["learner"] for row in rows))
    for line, dataset in enumerate(datasets):
        for column, (label, (where, name)) in enumerate(panels.items()):
            axes = grid[line][column]
            for row in rows:
                if row["dataset"] == dataset and name in row.get(where, {}):
                    number = learners.index(row["learner"])
                    style = {"marker": "osD^v<>"[number // 10], "color": f"C{number % 10}"}
                    axes.plot(row[where][name]["value"], row["aa"], linestyle="", **style)
            axes.set(xlabel=label, ylabel="AA, %" if column == 0 else "", title=dataset)
            axes.grid(alpha=0.3)
        axes, epsilons = grid[line][-1], [each for each in EPSILONS if each != "inf"]
        own = [row for row in every if row["dataset"] == dataset]
        means = [mean(row["aa"] for row in own if row["learner"] == f"private, ε = {each}") for each in epsilons]
        axes.plot([float(each) for each in epsilons], means, marker="o", markersize=4, label="private")
        for name, dashes in (("private, ε = inf", "--"), ("analytic", ":")):
            height = mean(row["aa"] for row in own if row["learner"] == name)
            axes.axhline(height, linestyle=dashes, color="grey", label=name)
        axes.set(xlabel="ε, δ = 1e-5 (9 runs each)", title=dataset)
        axes.legend(fontsize=8)
        axes.grid(alpha=0.3)
    for number, learner in enumerate(learners):
        style = {"marker": "osD^v<>"[number // 10], "color": f"C{number % 10}"}
        grid[0][0].plot([], [], linestyle="", label=learner, **style)
    drawn.legend(*grid[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=8)
    drawn.savefig(arguments.out, dpi=110)


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
    results = Path(__file__).parent / "results/privacy.jsonl"
    for command in (accuracy, leaks, power, table, figure):
        own = commands.add_parser(command.__name__)
        own.set_defaults(command=command)
        own.add_argument("--results", type=Path, default=results)
        if command is table:
            own.add_argument("--page", type=Path)
        elif command is figure:
            own.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "docs/images/privacy-utility.png")
        else:
            own.add_argument("--data", type=Path, required=True)
            own.add_argument("--dataset", nargs="+", default=DATASETS, choices=(*DATASETS, *OTHERS))
            own.add_argument("--learner", nargs="+", help="of leaks: only those with such words in their names")
    arguments = parser.parse_args()
    arguments.command(arguments)


if __name__ == "__main__":
    main()
