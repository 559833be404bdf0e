"""Live data: a graph that is not cut from a task stream, of which some nodes are labelled."""

from __future__ import annotations

from typing import Any

import numpy as np

from delome.errors import GraphError
from delome.graph import Graph, as_numpy


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
    """Graph of live data and its training nodes: those with a label, and of PyG data only those in ``train_mask``.

    >>> graph, train = labelled_nodes(Graph([[0], [1]], [[1.0], [2.0], [3.0]], [5, -1, 5]))
    >>> train.tolist()
    [0, 2]
    """
    graph = as_graph(data)
    chosen = np.zeros(graph.num_nodes, dtype=bool) if graph.labels is None else graph.labels >= 0
    mask = None if isinstance(data, Graph) else getattr(data, "train_mask", None)
    if mask is not None:
        chosen = chosen & _checked_mask(mask, graph.num_nodes)
    if not chosen.any():
        where = "" if mask is None else " inside train_mask"
        raise GraphError(f"no node{where} has a label to learn from: give at least one node a label from 0 on")
    return graph, np.flatnonzero(chosen)


def _checked_mask(mask: Any, nodes: int) -> np.ndarray:
    values = as_numpy(mask)
    if values.dtype != bool or values.shape != (nodes,):
        raise GraphError(
            f"train_mask must hold true or false for each of the {nodes} nodes, "
            f"but it has type {values.dtype} and shape {tuple(values.shape)}"
        )
    return values
