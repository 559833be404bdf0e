"""Scikit-learn's handwritten digits as a graph: the embedded default, real data without a download."""

from __future__ import annotations

import numpy as np

from delome.errors import DatasetError
from delome.graph import Graph


def load(neighbours: int = 8) -> Graph:
    """1,797 images of 8 × 8 pixels, each joined to its nearest images (symmetrised)."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    if not 1 <= neighbours < len(images):
        raise DatasetError(f"digits dataset: neighbours must be between 1 and {len(images) - 1}, not {neighbours}")
    # pixels are small whole numbers, so distances are exact and ties are broken by node id on every machine
    norms = (images**2).sum(axis=1)
    distances = norms[:, None] - 2 * images @ images.T + norms[None, :]
    np.fill_diagonal(distances, np.inf)
    nearest = np.argsort(distances, axis=1, kind="stable")[:, :neighbours]
    edges = np.stack([nearest.ravel(), np.repeat(np.arange(len(images)), neighbours)])
    pixels = (images / 16).astype(np.float32)
    return Graph(edges, pixels, labels, class_names=[str(digit) for digit in range(10)], undirected=True)
