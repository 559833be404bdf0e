"""Rows of length at most 1 that depend on one node each: what private statistics are made of."""

from __future__ import annotations

import numpy as np

from delome.graph.sparse import Features
from delome.randomness import generator

CHUNK_ROWS = 8192
SHORTER = 1 + 1e-6
"""Rows are made shorter by this factor, so that rounding never makes one longer than 1."""


def unit_rows(features: Features, projection: np.ndarray | None = None) -> np.ndarray:
    """Rows x R / |x R| (x / |x| without R); zeros stay zeros. No edge and no other node has a part in a row."""
    columns = features.shape[1] if projection is None else projection.shape[1]
    rows = np.empty((features.shape[0], columns), dtype=np.float32)
    for start in range(0, len(rows), CHUNK_ROWS):
        part = features[start : start + CHUNK_ROWS].astype(np.float64)
        dense = part @ projection if projection is not None else part
        dense = dense if isinstance(dense, np.ndarray) else dense.toarray()
        lengths = np.linalg.norm(dense, axis=1, keepdims=True)
        rows[start : start + CHUNK_ROWS] = dense / np.maximum(lengths * SHORTER, np.finfo(np.float64).tiny)
    return rows


def projection(seed: int, width: int, columns: int) -> np.ndarray:
    """A Gaussian matrix R that is drawn from the seed, and thus public."""
    return generator(seed, "projection").standard_normal((width, columns)).astype(np.float64)
