"""Where learned memory rows start from."""

from __future__ import annotations

from typing import Literal

import numpy as np

from delome.sparse import Features, to_dense
from delome.stream import Observation

Initial = Literal["raw", "propagated", "noise"]


def dense_rows(features: Features, nodes: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Chosen rows and columns as a dense float32 array."""
    return to_dense(features[nodes][:, columns])


def initial_rows(
    kind: Initial,
    observation: Observation,
    nodes: np.ndarray,
    columns: np.ndarray,
    budget: int,
    hops: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """``min(budget, len(nodes))`` rows for one class.

    ``raw`` and ``propagated``: features, or propagated features, of random training nodes, without replacement.
    ``noise``: Gaussian with the mean and spread of the class's propagated rows; no row is any node's.
    """
    count = min(budget, len(nodes))
    if kind == "noise":
        real = dense_rows(observation.graph.propagate(hops), nodes, columns)
        draws = rng.standard_normal((count, len(columns)), dtype=np.float32)
        noisy: np.ndarray = real.mean(axis=0) + draws * real.std(axis=0)
        return noisy
    chosen = nodes[np.sort(rng.choice(len(nodes), count, replace=False))]
    features = observation.graph.features if kind == "raw" else observation.graph.propagate(hops)
    return dense_rows(features, chosen, columns)
