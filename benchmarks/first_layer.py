"""The first layer of SGC, forwards and backwards: CSR against dense products, by density of the rows.

    python benchmarks/first_layer.py [--dataset file:PATH]

Prints the ratio dense/CSR of the time of one training step's products for random rows of several densities (where
it crosses 1 is `delome.graph.sparse.SPARSE_BELOW`), and with --dataset for the real rows of each task of a graph and
for DeLoMe's memories of all its tasks together, each multiplied with its own columns only.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import scipy.sparse as sp
import torch

from delome import DeLoMe, TaskStream, load_graph
from delome.graph.rows import Rows, SparseMatrix
from delome.graph.sparse import to_dense

HIDDEN = 256
CPU = torch.device("cpu")


def seconds(rows: Rows, weight: torch.Tensor, repeats: int = 10) -> float:
    def step() -> None:
        weight.grad = None
        rows.times(weight).sum().backward()

    step()
    start = time.perf_counter()
    for _ in range(repeats):
        step()
    return (time.perf_counter() - start) / repeats


def compare(matrix: sp.csr_array) -> tuple[float, float]:
    weight = torch.randn(matrix.shape[1], HIDDEN, requires_grad=True)
    sparse = seconds(Rows(SparseMatrix(matrix, CPU)), weight)
    dense = seconds(Rows(torch.from_numpy(to_dense(matrix))), weight)
    return dense, sparse


def compare_memories(dataset: str, budget: int) -> None:
    learner = DeLoMe(budget=budget, epochs=1)
    stream = TaskStream(load_graph(dataset))
    for task in stream:
        learner.observe(task)
    memories = learner.bank.examples(learner.network).inputs
    assert isinstance(memories, Rows)
    weight = torch.randn(memories.dense().shape[1], HIDDEN, requires_grad=True)
    form = type(memories.content).__name__
    ratio = seconds(Rows(memories.dense()), weight) / seconds(memories, weight)
    print(f"{dataset}: memories of {len(stream)} tasks, {len(memories)} rows: dense/{form} {ratio:.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dataset", help="also compare on the training rows of this graph's tasks")
    parser.add_argument("--budget", type=int, default=60, help="memory rows per class")
    arguments = parser.parse_args()
    rng = np.random.default_rng(0)
    print("density  dense/csr (1,000 random rows × 4,000 columns)")
    for density in (0.01, 0.03, 0.06, 0.09, 0.12, 0.15, 0.2, 0.3):
        matrix = sp.csr_array(sp.random(1000, 4000, density, format="csr", dtype=np.float32, rng=rng))
        dense, sparse = compare(matrix)
        print(f"{density:7.2f}  {dense / sparse:9.2f}")
    if arguments.dataset:
        dense_total = sparse_total = 0.0
        for task in TaskStream(load_graph(arguments.dataset)):
            matrix = sp.csr_array(task.graph.propagate(2)[task.train])
            dense, sparse = compare(matrix)
            dense_total, sparse_total = dense_total + dense, sparse_total + sparse
        print(f"{arguments.dataset}: dense/sparse first layer over all tasks: {dense_total / sparse_total:.1f}")
        compare_memories(arguments.dataset, arguments.budget)


if __name__ == "__main__":
    main()
