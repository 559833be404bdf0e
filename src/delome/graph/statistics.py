"""What a graph looks like in numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from delome.errors import GraphError
from delome.graph import Graph


@dataclass(frozen=True)
class GraphStatistics:
    """Sizes of a labelled graph; ``homophily`` is the share of edges between nodes of one class.

    Nodes whose label is unknown are counted as nodes, but belong to no class, and their edges do not count for
    homophily.

    >>> path = Graph([[0, 1, 2], [1, 2, 3]], [[1.0], [1.0], [0.0], [1.0]], [0, 0, 1, 1], undirected=True)
    >>> GraphStatistics.of(path).homophily
    0.6666666666666666
    """

    nodes: int
    edges: int
    undirected: bool
    features: int
    sparse: bool
    density: float
    isolated: int
    homophily: float
    class_sizes: dict[int, int]

    @classmethod
    def of(cls, graph: Graph) -> GraphStatistics:
        """Counts everything once."""
        if graph.labels is None:
            raise GraphError("statistics need a graph with labels")
        adjacency, labels, features = graph.adjacency, graph.labels, graph.features
        targets = np.repeat(np.arange(graph.num_nodes), np.diff(adjacency.indptr))
        ends = labels[targets], labels[adjacency.indices]
        known = (ends[0] >= 0) & (ends[1] >= 0)
        same = int(((ends[0] == ends[1]) & known).sum())
        received = np.diff(adjacency.indptr)
        sent = np.bincount(adjacency.indices, minlength=graph.num_nodes)
        present, counts = np.unique(labels[labels >= 0], return_counts=True)
        used = int(np.count_nonzero(features) if isinstance(features, np.ndarray) else features.nnz)
        return cls(
            nodes=graph.num_nodes,
            edges=graph.num_edges,
            undirected=bool((received == sent).all()) and (adjacency != adjacency.T).nnz == 0,
            features=graph.num_features,
            sparse=not isinstance(features, np.ndarray),
            density=used / (graph.num_nodes * graph.num_features),
            isolated=int(((received == 0) & (sent == 0)).sum()),
            homophily=same / int(known.sum()) if known.any() else float("nan"),
            class_sizes=dict(zip(present.tolist(), counts.tolist(), strict=True)),
        )
