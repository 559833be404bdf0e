"""Memories of experience: raw features of a few training nodes per class, chosen by a rule (ERGNN)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal

import numpy as np
import torch
from torch import Tensor

from delome.backbones.backbone import offered
from delome.graph import Graph
from delome.graph.sparse import smaller, to_dense
from delome.memories.builder import MEMORIES, Context, MemoryBuilder
from delome.memories.memory import Memory
from delome.parameters import Param
from delome.streams.tasks import Observation

Vectors = Callable[[np.ndarray], Tensor]

NODES_COMPARED = 1000
"""Most nodes of a class whose distances to others are looked at; larger classes are represented by a sample."""

ROWS_AT_ONCE = 256


def distance_to_mean(rows: Tensor) -> Tensor:
    """MF: distance of each row to the rows' mean.

    >>> distance_to_mean(torch.tensor([[0.0], [1.0], [2.0], [9.0]])).tolist()
    [3.0, 2.0, 1.0, 6.0]
    """
    return (rows - rows.mean(dim=0)).square().sum(dim=1).sqrt()


def others_within(rows: Tensor, others: Tensor, radius: float) -> Tensor:
    """CM: how many rows of other classes each row has nearer than ``radius``.

    >>> others_within(torch.tensor([[0.0], [1.0], [5.0]]), torch.tensor([[1.2], [5.1]]), 0.5).tolist()
    [0, 1, 1]
    """
    return torch.cat([(_distances(block, others) < radius).sum(dim=1) for block in rows.split(ROWS_AT_ONCE)])


def _distances(rows: Tensor, others: Tensor) -> Tensor:
    """By products, which cancel for long vectors: hence about the others' mean and in double precision."""
    centre = others.double().mean(dim=0) if len(others) else 0.0
    return torch.cdist(rows.double() - centre, others.double() - centre)


@MEMORIES.register("experience")
class Experience(MemoryBuilder):
    """``budget`` training nodes per class as rows of raw features without edges.

    ``mf`` (mean of features): the nodes nearest to the mean of their class. ``cm`` (coverage maximisation): the nodes
    with the fewest nodes of the task's other classes within ``radius`` (half the median distance between classes if
    it is None), ties at random. ``random``: any. Distances are between raw features, or between the hidden units of
    the network.
    """

    sampler: Annotated[
        Literal["mf", "cm", "random"],
        Param("mf: nearest to the class mean; cm: fewest nodes of other classes near; random"),
    ] = "cm"
    space: Annotated[
        Literal["raw", "embedding"], Param("where distances are taken: raw features, or hidden units of the network")
    ] = "raw"
    radius: Annotated[float | None, Param("what cm calls near; none = half the median distance", above=0)] = 0.5

    def build(self, observation: Observation, context: Context) -> Memory:
        rng = context.rng
        with context.tracker.phase("memory"):
            # in random order, so that a stable sort breaks ties at random
            classes = [rng.permutation(observation.train[observation.labels == c]) for c in observation.classes]
            vectors = self._vectors(observation.graph, context)
            chosen = [nodes[: self.budget] for nodes in self._ranked(vectors, classes)]
        labels = np.repeat(observation.classes, [len(nodes) for nodes in chosen])
        features = observation.graph.features[np.concatenate(chosen)]
        stored = features if isinstance(features, np.ndarray) else smaller(features)
        return Memory.of_rows(observation.index, stored, labels)

    def _ranked(self, vectors: Vectors, classes: list[np.ndarray]) -> list[np.ndarray]:
        """The nodes of each class, best first."""
        if self.sampler == "random":
            return classes
        if self.sampler == "mf":
            return [_sorted(nodes, distance_to_mean(vectors(nodes))) for nodes in classes]
        compared = [nodes[: max(NODES_COMPARED, self.budget)] for nodes in classes]
        rows = [vectors(nodes) for nodes in compared]
        ranked = []
        for k, nodes in enumerate(compared):
            others = torch.cat([part[:NODES_COMPARED] for j, part in enumerate(rows) if j != k] or [rows[k][:0]])
            radius = _half_median(rows[k], others) if self.radius is None else self.radius
            ranked.append(_sorted(nodes, others_within(rows[k], others, radius)))
        return ranked

    def _vectors(self, graph: Graph, context: Context) -> Vectors:
        """Vectors of nodes between which distances are taken."""
        if self.space == "raw":
            return lambda nodes: torch.from_numpy(to_dense(graph.features[nodes]))
        embed = offered(context.network, "embed", "space=embedding")
        return torch.no_grad()(lambda nodes: embed(graph, nodes))


def _sorted(nodes: np.ndarray, key: Tensor) -> np.ndarray:
    ordered: np.ndarray = nodes[torch.argsort(key, stable=True).cpu().numpy()]
    return ordered


def _half_median(rows: Tensor, others: Tensor) -> float:
    sample = _distances(rows[:ROWS_AT_ONCE], others)
    return float(sample.median()) / 2 if sample.numel() else 0.0
