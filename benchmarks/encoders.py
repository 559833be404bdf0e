"""CaT with sampled encoders and in closed form: seconds, expected distance, AA on validation and test nodes.

    python benchmarks/encoders.py run --data FOLDER [--dataset NAME …] [--encoders 1000 exact] [--seeds 3]
    python benchmarks/encoders.py table [--results FILE]
    python benchmarks/encoders.py time --data FOLDER [--dataset NAME …]

`run` appends a line of JSON for every run that FILE does not hold yet: CIL, SGC, 20 rows per class, 200 epochs. Sampled
and exact alternate. The distance is CaT's own, of classes to their memories, averaged over 100 fresh encoders of 512
units and over classes. `table` prints a Markdown table of means and standard deviations over seeds. `time` prints CPU
seconds of the first task's memory, three times in turn: 3,000 encoders, scaled from 10, and exact.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from pathlib import Path
from statistics import mean, median, stdev
from typing import Any

import numpy as np
import torch

from delome import Task, load_graph
from delome.backbones import SGC
from delome.experiment import RunConfig
from delome.graph.sparse import to_dense
from delome.memories import Context, DistributionMatching
from delome.memories.distribution_matching import distribution_distance, mean_embeddings
from delome.methods import CaT
from delome.progress import Tracker
from delome.randomness import generator, uniform
from delome.streams.columns import LabelColumns
from delome.streams.cut import CutStream
from delome.streams.task_stream import TaskStream

DATASETS = ("digits", "cora_ml", "amazon_computers")
KEYS = ("dataset", "encoders", "seed")
WIDTH, FRESH = 512, 100


def expected_distance(learner: CaT, stream: CutStream) -> float:
    """Mean over classes and fresh encoders of the distance between a class and its memory."""
    rng, found = generator(0, "fresh encoders"), []
    for task, memory in zip(stream, learner.bank.memories, strict=True):
        propagated, labels = task.graph.propagate(2), task.observation().labels
        width = propagated.shape[1]
        pairs = [
            [
                torch.from_numpy(np.ascontiguousarray(to_dense(rows), dtype=np.float32))
                for rows in (propagated[task.train[labels == column]], memory.graph.features[memory.labels == column])
            ]
            for column in task.classes
        ]
        for _ in range(FRESH):
            encoder = uniform(rng, (width, WIDTH), (6 / (width + WIDTH)) ** 0.5)
            for real, learned in pairs:
                means = [mean_embeddings(rows, encoder, [len(rows)]) for rows in (real, learned)]
                found.append(distribution_distance(*means).item())
    return mean(found)


def measured(config: RunConfig, stream: CutStream, seed: int) -> dict[str, float]:
    learner, tracker = config.learner(seed), Tracker()
    assert isinstance(learner, CaT)
    for task in stream:
        task.graph.propagate(2)
        learner.observe(task, tracker)
    scores = {
        name: mean(score.balanced for score in learner.score(stream.seen(stream[-1]), split))
        for name, split in (("aa", "test"), ("validation_aa", "val"))
    }
    return scores | {"seconds": tracker.seconds["memory"], "distance": expected_distance(learner, stream)}


def run_all(arguments: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    done = {tuple(row[key] for key in KEYS) for row in read(arguments.results)}
    for dataset in arguments.dataset:
        name, stream = dataset if dataset == "digits" else f"file:{arguments.data / dataset}.npz", None
        for seed in range(arguments.seeds):
            for encoders in arguments.encoders:
                if (dataset, encoders, seed) in done:
                    continue
                config = RunConfig.resolve(name, "cat", budget=20, epochs=200, assignments=[f"encoders={encoders}"])
                stream = stream or config.stream()
                row = dict(zip(KEYS, (dataset, encoders, seed), strict=True)) | measured(config, stream, seed)
                with arguments.results.open("a") as file:
                    file.write(json.dumps(row) + "\n")
                print(row, flush=True)


def print_times(arguments: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    for dataset in arguments.dataset:
        name = dataset if dataset == "digits" else f"file:{arguments.data / dataset}.npz"
        task = load_task(name)
        columns = LabelColumns("cil", [task.classes])
        network = SGC().network(task.graph.num_features, columns.seen, generator(0, "init"), torch.device("cpu"))
        task.graph.propagate(2)
        seconds = defaultdict(list)
        builders = {
            "exact": DistributionMatching(budget=20, encoders="exact"),
            "sampled": DistributionMatching(budget=20, encoders=10),
        }
        for kind, builder in [*builders.items()] * 4:
            context = Context(network, columns, generator(0, "memory"), Tracker())
            start = time.process_time()
            builder.build(task.observation(), context)
            seconds[kind].append(time.process_time() - start)
        sampled, exact = 300 * median(seconds["sampled"][1:]), median(seconds["exact"][1:])  # the first warms up
        print(
            f"{dataset}: 3000 encoders {sampled:.1f} s (scaled), exact {exact:.2f} s, ratio {sampled / exact:.0f}",
            flush=True,
        )


def load_task(name: str) -> Task:
    return next(iter(TaskStream(load_graph(name))))


def read(results: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []


def print_table(rows: list[dict[str, Any]]) -> None:
    found = defaultdict(list)
    for row in rows:
        found[row["dataset"], row["encoders"]].append(row)
    print("| graph | encoders | seeds | AA, validation | AA, test | distance | seconds / exact |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for (dataset, encoders), runs in sorted(found.items(), key=lambda each: DATASETS.index(each[0][0])):
        exact = found[dataset, "exact"]
        cells = [_spread(runs, metric) for metric in ("validation_aa", "aa")]
        ratio = mean(run["seconds"] for run in runs) / mean(run["seconds"] for run in exact)
        distance = mean(run["distance"] for run in runs)
        print(f"| {dataset} | {encoders} | {len(runs)} | {' | '.join(cells)} | {distance:.5f} | {ratio:.0f} |")


def _spread(runs: list[dict[str, Any]], metric: str) -> str:
    values = [run[metric] for run in runs]
    return f"{mean(values):.1f} ± {stdev(values):.1f}" if len(values) > 1 else f"{values[0]:.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("run", "table", "time"))
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--results", type=Path, default=Path("benchmarks/results/encoders.jsonl"))
    parser.add_argument("--dataset", nargs="+", choices=DATASETS, default=list(DATASETS))
    parser.add_argument("--encoders", nargs="+", default=["1000", "exact"])
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    if arguments.action == "run":
        run_all(arguments)
    elif arguments.action == "time":
        print_times(arguments)
    else:
        print_table(read(arguments.results))


if __name__ == "__main__":
    main()
