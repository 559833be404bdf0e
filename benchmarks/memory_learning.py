"""Seconds and expected loss of learning a memory: literal algorithm, sampled networks in closed form, exact matching.

    python benchmarks/memory_learning.py --dataset file:PATH --budget 60 --tasks 3 [--json] [--figure loss.png]

For the first tasks of the stream, in one run:

(a) literal: Algorithm 1 of the paper as printed: 800 random networks, for each class the gradients of both sides by
    automatic differentiation with create_graph, one Adam step of 1e-4. Timed on a few networks and scaled linearly
    (marked so), on rows propagated once beforehand, which favours it.
(b) sampled: the same algorithm with gradients in closed form and all classes in one batch (memory="gradient-matching").
(c) exact: the expectation over networks minimised directly (memory="kernel-matching").

The relative loss is the expected squared gradient distance over the squared mean gradient of the class: 0 is lossless.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace

import numpy as np
import torch
from torch.nn import functional

from delome import Task, TaskStream, load_graph
from delome.backbones import SGC
from delome.graph.sparse import to_dense
from delome.memories import Context, GradientMatching, KernelMatching, MemoryBuilder
from delome.memories.initial import initial_weights
from delome.memories.kernel import Kernel
from delome.memories.matching import match
from delome.memories.mmd import relative_loss
from delome.progress import Tracker
from delome.randomness import generator, uniform
from delome.streams.columns import LabelColumns

NETWORKS = 800
HIDDEN = 256
CPU = torch.device("cpu")


def literal_seconds(task: Task, seen: int, budget: int, networks: int) -> float:
    """Seconds of the printed algorithm with this many networks."""
    rng = generator(0, "literal", task.index)
    graph, labels = task.graph, task.observation().labels
    propagated, width = graph.propagate(2), graph.num_features
    real, rows = {}, {}
    for column in task.classes:
        nodes = task.train[labels == column]
        chosen = rng.choice(nodes, min(budget, len(nodes)), replace=False)
        real[column] = torch.from_numpy(np.ascontiguousarray(to_dense(propagated[nodes])))
        rows[column] = torch.from_numpy(np.ascontiguousarray(to_dense(graph.features[chosen]))).requires_grad_()
    optimizer = torch.optim.Adam(list(rows.values()), lr=1e-4)
    start = time.perf_counter()
    for _ in range(networks):
        first = uniform(rng, (width, HIDDEN), width**-0.5).requires_grad_()
        second = uniform(rng, (HIDDEN, seen), HIDDEN**-0.5).requires_grad_()

        def gradients(batch: torch.Tensor, column: int, create_graph: bool) -> tuple[torch.Tensor, ...]:
            logits = (batch @ first).relu() @ second  # noqa: B023  # used within the iteration
            loss = functional.cross_entropy(logits, torch.full((len(batch),), column))
            return torch.autograd.grad(loss, (first, second), create_graph=create_graph)  # noqa: B023

        for column in task.classes:
            wanted = gradients(real[column], column, create_graph=False)
            reached = gradients(rows[column], column, create_graph=True)
            distance = sum((a - b).square().sum() for a, b in zip(wanted, reached, strict=True))
            optimizer.zero_grad()
            distance.backward()
            optimizer.step()
    return time.perf_counter() - start


def timed(builder: MemoryBuilder, task: Task, columns: LabelColumns) -> tuple[float, float]:
    """Seconds, and mean relative loss over classes."""
    network = SGC(hidden=HIDDEN).network(task.graph.num_features, columns.seen, generator(0, "init"), CPU)
    context = Context(network, columns, generator(0, "memory", task.index), Tracker())
    start = time.perf_counter()
    memory = builder.build(task.observation(), context)
    return time.perf_counter() - start, float(np.mean(memory.report["relative_loss"]))


def exact_until(steps: int, task: Task, budget: int) -> tuple[float, float]:
    """The same for exact matching that ends after so many steps, without the time of measuring the loss."""
    rng, kernel = generator(0, "memory", task.index), Kernel.ntk(task.graph.num_features, HIDDEN)
    propagated, labels = task.graph.propagate(2), task.observation().labels
    classes = [propagated[task.train[labels == column]] for column in task.classes]
    start = time.perf_counter()
    learned = []
    for real in classes:
        weights = initial_weights("mixture", real.shape[0], budget, rng)
        learned.append(match(real, weights, kernel, rng, CPU, iterations=steps).rows)
    seconds = time.perf_counter() - start
    losses = [relative_loss(kernel, real, rows, rng) for real, rows in zip(classes, learned, strict=True)]
    return seconds, float(np.mean(losses))


def measure(task: Task, columns: LabelColumns, budget: int, literal_networks: int) -> dict[str, float]:
    task.graph.propagate(2)
    literal = literal_seconds(task, columns.seen, budget, literal_networks) * NETWORKS / literal_networks
    sampled, sampled_loss = timed(GradientMatching(budget=budget, networks=NETWORKS), task, columns)
    exact, exact_loss = timed(KernelMatching(budget=budget), task, columns)
    return {
        "literal_seconds": literal,
        "sampled_seconds": sampled,
        "sampled_loss": sampled_loss,
        "exact_seconds": exact,
        "exact_loss": exact_loss,
    }


def draw(task: Task, columns: LabelColumns, budget: int, path: str) -> None:
    """Relative loss against seconds, for more and more networks or steps."""
    from matplotlib.figure import Figure

    sampled = GradientMatching(budget=budget)
    curves = {
        "sampled networks, raw start (paper)": [
            timed(replace(sampled, networks=count), task, columns) for count in (25, 50, 100, 200, 400, 800, 1600)
        ],
        "sampled networks, step 1e-2": [
            timed(replace(sampled, networks=count, lr=1e-2), task, columns) for count in (25, 50, 100, 200, 400, 800)
        ],
    }
    curves["exact"] = [exact_until(steps, task, budget) for steps in (1, 3, 5, 10, 20, 40, 60)]
    figure = Figure(figsize=(6.5, 4), layout="constrained")
    axes = figure.subplots()
    for name, points in curves.items():
        axes.loglog(*zip(*points, strict=True), marker="o", markersize=4, label=name)
    axes.set(xlabel="seconds for one task", ylabel="relative expected loss", title=f"Learning {budget} rows per class")
    axes.grid(alpha=0.3, which="both")
    axes.legend()
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dataset", default="digits")
    parser.add_argument("--budget", type=int, default=60)
    parser.add_argument("--tasks", type=int, default=3, help="how many tasks, from the first on")
    parser.add_argument("--literal-networks", type=int, default=20, help="networks the literal algorithm is timed on")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--figure", help="also draw loss against seconds for the first task to this file")
    arguments = parser.parse_args()
    stream = TaskStream(load_graph(arguments.dataset))
    tasks = list(stream)[: arguments.tasks]
    # the first call of everything pays for lazy initialisation and is not counted
    measure(tasks[0], LabelColumns("cil", [tasks[0].classes]), 2, 1)
    if arguments.figure:
        draw(tasks[0], LabelColumns("cil", [tasks[0].classes]), arguments.budget, arguments.figure)
    rows = [
        measure(
            task,
            LabelColumns("cil", [each.classes for each in tasks[: task.index + 1]]),
            arguments.budget,
            arguments.literal_networks,
        )
        for task in tasks
    ]
    seconds = {kind: sum(row[f"{kind}_seconds"] for row in rows) for kind in ("literal", "sampled", "exact")}
    result = {
        "dataset": arguments.dataset,
        "budget": arguments.budget,
        "tasks": len(tasks),
        "seconds": seconds,
        "literal_scaled_from_networks": arguments.literal_networks,
        "relative_loss": {kind: float(np.mean([row[f"{kind}_loss"] for row in rows])) for kind in ("sampled", "exact")},
        "speedup": seconds["literal"] / seconds["exact"],
        "speedup_sampled": seconds["literal"] / seconds["sampled"],
        "per_task": rows,
        "threads": torch.get_num_threads(),
    }
    if arguments.json:
        print(json.dumps(result))
        return
    print(f"{arguments.dataset}, {arguments.budget} rows per class, {len(tasks)} tasks, {result['threads']} threads")
    print(f"literal  {seconds['literal']:9.2f} s  (scaled from {arguments.literal_networks} networks)")
    print(f"sampled  {seconds['sampled']:9.2f} s  relative loss {result['relative_loss']['sampled']:.4f}")
    print(f"exact    {seconds['exact']:9.2f} s  relative loss {result['relative_loss']['exact']:.4f}")
    print(f"speedup {result['speedup']:.1f}   speedup_sampled {result['speedup_sampled']:.1f}")


if __name__ == "__main__":
    main()
