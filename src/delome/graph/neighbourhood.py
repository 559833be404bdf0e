"""The part of a graph that some nodes see: enough to classify them, and on a large graph much less than all of it."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from delome.graph.graph import SCALE, Graph

SMALL_PART = 0.25
"""Share of a graph's edges up to which the neighbourhood of nodes is cut out."""

CUT_FROM = 1 << 16
"""Edges of a graph from which that is worth the trouble."""


def seen_by(graph: Graph, nodes: np.ndarray, hops: int) -> tuple[Graph, np.ndarray]:
    """A graph in which these nodes have the same rows of S^hops X as in the whole one, and their numbers there.

    It consists of all nodes within so many hops, with the edges into all but the outermost, and the degrees of the
    whole graph. If that is not much smaller, or if something was computed for the whole graph before and can be used
    again, it is the whole graph.
    """
    used_before = graph._cache.keys() - {SCALE} or graph.shared is not None
    if used_before or graph.num_edges < CUT_FROM or (levels := _levels(graph, nodes, hops)) is None:
        return graph, nodes
    inner, all_nodes = levels
    edges = graph.adjacency[inner]
    counts = np.zeros(len(all_nodes) + 1, dtype=edges.indptr.dtype)
    counts[1 + _positions(inner, all_nodes, graph.num_nodes)] = np.diff(edges.indptr)
    sources = _positions(edges.indices, all_nodes, graph.num_nodes).astype(edges.indices.dtype)
    size = (len(all_nodes), len(all_nodes))
    adjacency = sp.csr_array((edges.data, sources, np.cumsum(counts, dtype=counts.dtype)), shape=size)
    part = Graph._trusted(adjacency, graph.features[all_nodes], None)
    part._cache[SCALE] = graph.scale()[all_nodes]
    return part, _positions(nodes, all_nodes, graph.num_nodes)


def _levels(graph: Graph, nodes: np.ndarray, hops: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Nodes within one hop less than all, and within all; none if too many edges lead there."""
    indptr = graph.adjacency.indptr
    inner = reached = _distinct(nodes, graph.num_nodes)
    for _ in range(hops):
        inner = reached
        if int((indptr[inner + 1] - indptr[inner]).sum(dtype=np.int64)) > SMALL_PART * graph.num_edges:
            return None
        reached = _distinct(np.concatenate([inner, graph.adjacency[inner].indices]), graph.num_nodes)
    return inner, reached


def _distinct(numbers: np.ndarray, count: int) -> np.ndarray:
    """The different ones of some numbers below ``count``, in order."""
    if 8 * len(numbers) < count:
        return np.unique(numbers)
    present = np.zeros(count, dtype=bool)
    present[numbers] = True
    return np.flatnonzero(present)


def _positions(numbers: np.ndarray, among: np.ndarray, count: int) -> np.ndarray:
    """Where numbers below ``count`` stand in an ordered list."""
    if 8 * len(numbers) < count:
        return np.searchsorted(among, numbers)
    position = np.empty(count, dtype=np.int64)
    position[among] = np.arange(len(among))
    found: np.ndarray = position[numbers]
    return found
