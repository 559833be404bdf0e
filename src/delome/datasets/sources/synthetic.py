"""Attributed stochastic block model: class centres plus noise as features, edges inside classes by homophily."""

from __future__ import annotations

import numpy as np

from delome.errors import DatasetError
from delome.graph import Graph
from delome.randomness import generator


def load(
    nodes: int = 2000,
    classes: int = 10,
    features: int = 32,
    degree: float = 10.0,
    homophily: float = 0.8,
    imbalance: float = 1.0,
    noise: float = 1.0,
    seed: int = 0,
) -> Graph:
    """Undirected graph with ``degree`` edges a node on average.

    ``homophily`` is the share of edges inside a class, ``imbalance`` the size of the largest class over the
    smallest (sizes fall geometrically), ``noise`` the spread of features around a class centre of unit length.
    Every array is drawn at once: a million nodes take seconds.
    """
    _check(nodes, classes, features, degree, homophily, imbalance, noise, seed)
    rng = generator(seed, "synthetic")
    share = imbalance ** -(np.arange(classes) / max(classes - 1, 1))
    sizes = 1 + np.floor((nodes - classes) * share / share.sum()).astype(np.int64)
    sizes[: nodes - sizes.sum()] += 1
    labels = np.repeat(np.arange(classes), sizes)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])

    pairs = round(nodes * degree / 2)
    source = rng.integers(nodes, size=pairs, dtype=np.int32)
    target = rng.integers(nodes, size=pairs, dtype=np.int32)
    inside = rng.random(pairs, dtype=np.float32) < homophily
    own = labels[source[inside]]
    target[inside] = starts[own] + (rng.random(len(own)) * sizes[own]).astype(np.int64)
    if classes > 1:
        own = labels[source[~inside]]
        elsewhere = (rng.random(len(own)) * (nodes - sizes[own])).astype(np.int64)
        target[~inside] = elsewhere + (elsewhere >= starts[own]) * sizes[own]

    centres = rng.standard_normal((classes, features), dtype=np.float32)
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    attributes = rng.standard_normal((nodes, features), dtype=np.float32)
    attributes *= np.float32(noise / np.sqrt(features))
    attributes += centres[labels]
    return Graph(np.stack([source, target]), attributes, labels, undirected=True)


def _check(
    nodes: int, classes: int, features: int, degree: float, homophily: float, imbalance: float, noise: float, seed: int
) -> None:
    limits = {
        "classes must be at least 1": classes >= 1,
        "nodes must be at least 3 for each class": nodes >= 3 * classes,
        "features must be at least 1": features >= 1,
        "degree must not be negative": degree >= 0,
        "homophily must be between 0 and 1": 0 <= homophily <= 1,
        "imbalance must be at least 1": imbalance >= 1,
        "noise must not be negative": noise >= 0,
        "noise must be at most 1e30": noise <= 1e30,
        "features must be fewer than 2^31": features < 2**31,
        "nodes, and edges (nodes x degree), must be fewer than 2^31 each": nodes < 2**31 and nodes * degree < 2**31,
        "seed must not be negative": seed >= 0,
    }
    for sentence, holds in limits.items():
        if not holds:
            raise DatasetError(f"synthetic dataset: {sentence}")
