"""Memories of plain rows: nodes as they are, nodes after propagation, or centroids. The baselines of learned memory."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from importlib import import_module
from typing import Literal

import numpy as np

from delome.columns import LabelColumns
from delome.memory.bank import Memory
from delome.sparse import Features, int32_indices, smaller, stack
from delome.stream import Observation
from delome.tracking import Tracker

RowKind = Literal["raw", "propagated", "kmeans"]


@dataclass(frozen=True)
class RowMemory:
    """``budget`` rows per class without edges.

    ``raw``: features of random training nodes. ``propagated``: their rows of S² X. ``kmeans``: centroids of the class's
    propagated rows. What ``raw`` lacks against ``propagated`` is propagation, and what those lack against a learned
    memory is learning.
    """

    budget: int
    kind: RowKind
    hops: int = 2

    def build(
        self, observation: Observation, columns: LabelColumns, rng: np.random.Generator, tracker: Tracker
    ) -> Memory:
        features = observation.graph.features if self.kind == "raw" else observation.graph.propagate(self.hops)
        parts: list[Features] = []
        if self.kind == "kmeans":
            import_module("sklearn.cluster")  # takes a second that is not to be counted
        with tracker.phase("memory", len(observation.classes)) as step:
            for column in observation.classes:
                nodes = observation.train[observation.labels == column]
                count = min(self.budget, len(nodes))
                if self.kind == "kmeans":
                    parts.append(_centroids(features[nodes], count, rng))
                else:
                    parts.append(features[rng.choice(nodes, count, replace=False)])
                step()
        labels = np.repeat(observation.classes, [part.shape[0] for part in parts])
        rows = stack(parts)
        stored = rows if isinstance(rows, np.ndarray) else smaller(rows)
        return Memory.of_rows(observation.index, stored, labels)


def _centroids(rows: Features, count: int, rng: np.random.Generator) -> np.ndarray:
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    # what overflows is found in the memory that comes of it
    with warnings.catch_warnings(), np.errstate(over="ignore", invalid="ignore"):
        # rows that repeat each other give fewer distinct centroids, which is as it should be
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = KMeans(count, n_init=1, random_state=int(rng.integers(2**31))).fit(
            rows if isinstance(rows, np.ndarray) else int32_indices(rows)
        )
    centroids: np.ndarray = found.cluster_centers_.astype(np.float32)
    return centroids
