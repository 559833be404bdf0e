"""Coupled or decoupled weight decay: graphs × settings × methods × seeds, on validation and test nodes.

    python benchmarks/decay.py run --data FOLDER [--dataset NAME …] [--method NAME …] [--seeds 3] [--results FILE]
    python benchmarks/decay.py table [--results FILE]

`run` appends a line of JSON for every run that FILE does not hold yet: SGC, 20 rows per class, 200 epochs. Of Joint,
which starts afresh for each task, only the last task is trained. `table` prints a Markdown table of mean AA and its
standard deviation over seeds.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from delome.experiment import RunConfig
from delome.learning import GradientLearner
from delome.streams.cut import CutStream

DATASETS = ("cora_ml", "amazon_computers", "corafull_knn256", "cora70", "coauthor_cs")
METHODS = ("finetune", "delome", "replay", "joint")
DECAYS = ("coupled", "decoupled")
KEYS = ("dataset", "setting", "method", "decay", "seed")


def measured(config: RunConfig, stream: CutStream, seed: int) -> dict[str, float]:
    learner = config.learner(seed)
    assert isinstance(learner, GradientLearner)
    epochs, last = learner.epochs, stream[-1]
    for task in stream:
        learner.epochs = epochs if config.method != "joint" or task is last else 1
        learner.observe(task)
    return {
        name: mean(score.balanced for score in learner.score(stream.seen(last), split))
        for name, split in (("aa", "test"), ("validation_aa", "val"))
    }


def run_all(arguments: argparse.Namespace) -> None:
    done = {tuple(row[key] for key in KEYS) for row in read(arguments.results)}
    for seed in range(arguments.seeds):
        for dataset in arguments.dataset:
            stream = None
            for setting in ("cil", "til"):
                for method in arguments.method:
                    for decay in DECAYS:
                        if (dataset, setting, method, decay, seed) in done:
                            continue
                        config = RunConfig.resolve(
                            f"file:{arguments.data / dataset}.npz",
                            method,
                            setting=setting,
                            budget=20,
                            epochs=200,
                            assignments=[f"decay={decay}"],
                        )
                        stream = stream or config.stream()
                        row = dict(zip(KEYS, (dataset, setting, method, decay, seed), strict=True))
                        row |= measured(config, stream, seed)
                        with arguments.results.open("a") as file:
                            file.write(json.dumps(row) + "\n")
                        print(row, flush=True)


def read(results: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []


def print_table(rows: list[dict[str, Any]]) -> None:
    found = defaultdict(list)
    for row in rows:
        found[tuple(row[key] for key in KEYS[:4])].append(row)
    print("| graph | setting | method | seeds | coupled, val | decoupled, val | coupled, test | decoupled, test |")
    print("|---|---|---|---:|---:|---:|---:|---:|")
    for dataset in DATASETS:
        for setting in ("cil", "til"):
            for method in METHODS:
                runs = [found[dataset, setting, method, decay] for decay in DECAYS]
                if all(runs):
                    cells = [_spread(run, metric) for metric in ("validation_aa", "aa") for run in runs]
                    seeds = min(map(len, runs))
                    print(f"| {dataset} | {setting.upper()} | `{method}` | {seeds} | {' | '.join(cells)} |")


def _spread(runs: list[dict[str, Any]], metric: str) -> str:
    values = [run[metric] for run in runs]
    return f"{mean(values):.1f} ± {stdev(values):.1f}" if len(values) > 1 else f"{values[0]:.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("run", "table"))
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--results", type=Path, default=Path("benchmarks/results/decay.jsonl"))
    parser.add_argument("--dataset", nargs="+", choices=DATASETS, default=list(DATASETS))
    parser.add_argument("--method", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    if arguments.action == "run":
        run_all(arguments)
    else:
        print_table(read(arguments.results))


if __name__ == "__main__":
    main()
