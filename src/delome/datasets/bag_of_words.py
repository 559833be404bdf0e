"""Citation, co-purchase and co-author graphs with word features: one npz each, matrices in CSR pieces.

CoraFull and its relatives (Bojchevski and Günnemann, 2018), Amazon and Coauthor (Shchur et al., 2018).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import scipy.sparse as sp

from delome.datasets import files
from delome.datasets.reading import Progress, Reading, Statistics
from delome.sparse import Features


def read(raw: Path, workspace: Path, sizes: Statistics, progress: Progress, *, file: str) -> Reading:
    """The graph as PyG publishes it: edges in both directions, words that occur count 1, no self-loops.

    The published numbers of edges count what is left then, each direction for itself.
    """
    progress(f"reading {file}", 0, None)
    graph = files.load(str(raw / file), undirected=True, weights=False)
    graph = graph._like(features=_occurrence(graph.features))
    return Reading(graph, graph.num_edges)


def _occurrence(features: Features) -> Features:
    if isinstance(features, np.ndarray):
        return np.where(features > 0, np.float32(1), features)
    values = np.where(features.data > 0, np.float32(1), features.data)
    return sp.csr_array((values, features.indices, features.indptr), shape=features.shape)
