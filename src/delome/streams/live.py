"""Live data: a graph that is not cut from a task stream, of which some nodes are labelled."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from delome.errors import GraphError, ParameterError
from delome.graph import Graph, as_numpy
from delome.streams.columns import Label


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


def is_live(data: Any) -> bool:
    """Whether data is a graph or PyG ``Data``, and not tasks of a stream."""
    pyg = sys.modules.get("torch_geometric.data")  # not imported: then this cannot be such data
    return isinstance(data, Graph) or (pyg is not None and isinstance(data, pyg.Data))


def labelled_nodes(data: Any, known: Sequence[Label] | None = None, split: str = "train") -> tuple[Graph, np.ndarray]:
    """Graph of live data and its nodes with a label, or with one of the ``known`` labels.

    If there is a mask of the split, e.g. a train mask, only those inside it.

    >>> graph, train = labelled_nodes(Graph([[0], [1]], [[1.0], [2.0], [3.0]], [5, -1, 7]))
    >>> train.tolist(), labelled_nodes(graph, known=[7])[1].tolist()
    ([0, 2], [2])
    """
    graph = as_graph(data)
    if graph.labels is None or graph.user_labels is None:
        chosen = np.zeros(graph.num_nodes, dtype=bool)
    else:
        chosen = graph.labels >= 0 if known is None else np.isin(graph.user_labels, known)
    mask = graph.masks.get(split)
    if mask is not None:
        chosen = chosen & mask
    if not chosen.any():
        where = "" if mask is None else f" inside {split}_mask"
        if known is None:
            raise GraphError(f"no node{where} has a label to learn from: give at least one node a label")
        raise GraphError(
            f"no node{where} has a label that was learned: give at least one node a label of these: {known}"
        )
    return graph, np.flatnonzero(chosen)


def numbers_of(nodes: Any, count: int) -> np.ndarray:
    """Numbers of chosen nodes among ``count``: ``None`` chooses all, a mask those where it is true.

    >>> numbers_of([2, 0], 3).tolist(), numbers_of([False, True, True], 3).tolist(), numbers_of(None, 2).tolist()
    ([2, 0], [1, 2], [0, 1])
    """
    if nodes is None:
        return np.arange(count)
    numbers = as_numpy(nodes)
    if numbers.dtype == bool and numbers.shape == (count,):
        return np.flatnonzero(numbers)
    if numbers.ndim == 1 and len(numbers) == 0:
        return np.empty(0, dtype=np.int64)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu" or numbers.min() < 0 or numbers.max() >= count:
        raise ParameterError(
            f"nodes must be a list of whole numbers from 0 to {count - 1}, or true or false for each of {count} nodes"
        )
    return numbers
