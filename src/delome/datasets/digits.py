"""Scikit-learn's handwritten digits as a graph: the embedded default, real data without a download."""

from __future__ import annotations

import numpy as np

from delome.graph import Graph


def load(neighbours: int = 8) -> Graph:
    """1,797 images of 8 × 8 pixels, each joined to its nearest images (symmetrised)."""
    from sklearn.datasets import load_digits
    from sklearn.neighbors import kneighbors_graph

    images, labels = load_digits(return_X_y=True)
    pixels = (images / 16).astype(np.float32)
    nearest = kneighbors_graph(pixels, neighbours).tocoo()
    edges = np.stack([nearest.col, nearest.row])
    return Graph(edges, pixels, labels, class_names=[str(digit) for digit in range(10)], undirected=True)
