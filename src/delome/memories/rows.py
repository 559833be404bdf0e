"""Memories of plain rows: nodes as they are, nodes after propagation, or centroids. The baselines of learned memory.

What raw rows lack against propagated ones is propagation, and what those lack against a learned memory is learning.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from importlib import import_module

import numpy as np

from delome.graph.sparse import Features, int32_indices, smaller, stack
from delome.memories.builder import MEMORIES, Context, MemoryBuilder
from delome.memories.memory import Memory
from delome.streams.tasks import Observation


class RowMemory(MemoryBuilder):
    """``budget`` rows per class without edges."""

    def features(self, observation: Observation, context: Context) -> Features:
        """What rows are chosen from."""
        return observation.graph.propagate(context.hops)

    @abstractmethod
    def choose(self, features: Features, nodes: np.ndarray, count: int, rng: np.random.Generator) -> Features:
        """So many rows for the nodes of a class."""

    def build(self, observation: Observation, context: Context) -> Memory:
        features = self.features(observation, context)
        parts: list[Features] = []
        with context.tracker.phase("memory", len(observation.classes)) as step:
            for column in observation.classes:
                nodes = observation.train[observation.labels == column]
                parts.append(self.choose(features, nodes, min(self.budget, len(nodes)), context.rng))
                step()
        labels = np.repeat(observation.classes, [part.shape[0] for part in parts])
        rows = stack(parts)
        stored = rows if isinstance(rows, np.ndarray) else smaller(rows)
        return Memory.of_rows(observation.index, stored, labels)


@MEMORIES.register("propagated")
class PropagatedRows(RowMemory):
    """Rows of S² X of random training nodes."""

    def choose(self, features: Features, nodes: np.ndarray, count: int, rng: np.random.Generator) -> Features:
        return features[rng.choice(nodes, count, replace=False)]


@MEMORIES.register("raw")
class RawRows(PropagatedRows):
    """Features of random training nodes."""

    def features(self, observation: Observation, context: Context) -> Features:
        return observation.graph.features


@MEMORIES.register("kmeans")
class Centroids(RowMemory):
    """K-means centroids of the propagated rows of each class."""

    def features(self, observation: Observation, context: Context) -> Features:
        import_module("sklearn.cluster")  # takes a second that is not to be counted
        return super().features(observation, context)

    def choose(self, features: Features, nodes: np.ndarray, count: int, rng: np.random.Generator) -> Features:
        return _centroids(features[nodes], count, rng)


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
