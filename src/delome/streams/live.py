"""Live data: a graph that is not cut from a task stream, of which some nodes are labelled."""

from __future__ import annotations

from typing import Any

import numpy as np

from delome.errors import GraphError
from delome.graph import Graph


def as_graph(data: Any) -> Graph:
    """A graph as it is, or that of a PyG ``Data``."""
    if isinstance(data, Graph):
        return data
    from torch_geometric.data import Data  # only now: importing PyG takes seconds

    if isinstance(data, Data):
        return Graph.from_pyg(data)
    raise GraphError(
        f"a {type(data).__name__} cannot be learned from: give a task of a TaskStream, a delome.Graph or a PyG Data"
    )


def labelled_nodes(data: Any) -> tuple[Graph, np.ndarray]:
    """Graph of live data and its training nodes: those with a label, and if there is a train mask only those inside it.

    >>> graph, train = labelled_nodes(Graph([[0], [1]], [[1.0], [2.0], [3.0]], [5, -1, 5]))
    >>> train.tolist()
    [0, 2]
    """
    graph = as_graph(data)
    chosen = np.zeros(graph.num_nodes, dtype=bool) if graph.labels is None else graph.labels >= 0
    mask = graph.masks.get("train")
    if mask is not None:
        chosen = chosen & mask
    if not chosen.any():
        where = "" if mask is None else " inside train_mask"
        raise GraphError(f"no node{where} has a label to learn from: give at least one node a label")
    return graph, np.flatnonzero(chosen)
