"""Balanced Forman curvature of edges: how many ways there are around an edge."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp

BLOCK_SIZE = 2**22
"""Entries of intermediate results that are held at once."""


def undirected(adjacency: sp.csr_array) -> sp.csr_array:
    """The same edges in both directions, each once, as ones that can be counted."""
    both = sp.csr_array(adjacency.astype(bool) + adjacency.T.astype(bool))
    both.sort_indices()  # products of rows that are sorted are faster
    return both.astype(np.int32)


def balanced_forman(
    adjacency: sp.csr_array, left: np.ndarray, right: np.ndarray, four_cycles: bool = True
) -> np.ndarray:
    """Curvature of the edges i–j, i in ``left`` and j in ``right``, of an `undirected` graph without self-loops.

    Ric(i, j) = 2/dᵢ + 2/dⱼ − 2 + 2Δ / max(dᵢ, dⱼ) + Δ / min(dᵢ, dⱼ) + (Qᵢ + Qⱼ) / (γ max(dᵢ, dⱼ)), and 0 if a degree d
    is 1 (Topping, Di Giovanni, Chamberlain, Dong, Bronstein, 2022, "Understanding over-squashing and bottlenecks on
    graphs via curvature"). Δ counts the common neighbours. The last term is about 4-cycles i–k–w–j without diagonals:
    Qᵢ counts the nodes k beside i that are in one, Qⱼ the nodes w beside j, and γ is the largest number of these cycles
    that one k or one w is in. Without ``four_cycles`` that term is left out: a lower bound that needs only degrees and
    common neighbours.

    >>> square = undirected(sp.csr_array([[0, 1, 0, 1], [0, 0, 1, 0], [0, 0, 0, 1], [0, 0, 0, 0]]))
    >>> balanced_forman(square, np.array([0]), np.array([1])).tolist()
    [1.0]
    """
    degree = np.diff(adjacency.indptr)
    fewer, more = np.minimum(degree[left], degree[right]), np.maximum(degree[left], degree[right])
    common = _common_neighbours(adjacency, left, right)
    curvature = 2 / fewer + 2 / more - 2 + 2 * common / more + common / fewer
    if four_cycles:
        curvature += _four_cycles(adjacency, left, right) / more
    return np.where(fewer == 1, 0.0, curvature)


def blocks(weights: np.ndarray, limit: int) -> Iterator[slice]:
    """Cuts a sequence into parts that weigh about ``limit`` each, but never cuts an item."""
    part = np.cumsum(weights, dtype=np.int64) // limit
    ends = np.append(np.flatnonzero(np.diff(part)) + 1, len(weights))
    start = 0
    for end in ends.tolist():
        if end > start:
            yield slice(start, end)
        start = end


def _common_neighbours(adjacency: sp.csr_array, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Δ of each edge."""
    degree = np.diff(adjacency.indptr)
    common = np.zeros(len(left), dtype=np.int64)
    for block in blocks(degree[left] + degree[right], BLOCK_SIZE):
        common[block] = adjacency[left[block]].multiply(adjacency[right[block]]).sum(axis=1)
    return common


def _four_cycles(adjacency: sp.csr_array, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """(Qᵢ + Qⱼ) / γ of each edge, 0 where there is no 4-cycle."""
    degree = np.diff(adjacency.indptr)
    order = np.argsort(left, kind="stable")
    left, right = left[order], right[order]
    # a star takes the neighbours of its spokes and a lookup of all nodes once, and for each edge two rows of products
    reach = adjacency @ degree
    products = degree[left] + np.minimum(np.minimum(reach[left], reach[right]), len(degree))
    weights = products + (np.diff(left, prepend=-1) != 0) * (reach[left] + len(degree))
    term = np.zeros(len(left))
    for block in blocks(weights, BLOCK_SIZE):
        term[order[block]] = _four_cycles_in_stars(adjacency, left[block], right[block])
    return term


def _four_cycles_in_stars(adjacency: sp.csr_array, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The term of all edges at once, by products that the edges of one star share.

    The star of i has a spoke for each neighbour k. Let ``outer`` be spokes × nodes w beside k, but not i and not beside
    i, and ``inner`` spokes × spokes beside each other. Then (outer outerᵀ)[j, k] of the 4-cycles i–k–w–j without
    diagonals contain k, if k is not beside j. And w is in as many as it touches spokes, but for j and those beside j:
    touched[w] − 1 − (inner outer)[j, w]. Stars do not mix: each has rows and columns of its own.
    """
    nodes = adjacency.shape[0]
    centres, star = np.unique(left, return_inverse=True)
    spokes = adjacency[centres]
    star_of_spoke = np.repeat(np.arange(len(centres)), np.diff(spokes.indptr))
    beside = adjacency[spokes.indices]
    spoke = np.repeat(np.arange(spokes.nnz), np.diff(beside.indptr))
    key = star_of_spoke[spoke] * nodes + beside.indices

    place = np.full(len(centres) * nodes, -1, dtype=np.int32)
    place[star_of_spoke * nodes + spokes.indices] = np.arange(spokes.nnz)
    is_inner = place[key] >= 0
    is_outer = ~is_inner & (beside.indices != centres[star_of_spoke[spoke]])
    inner = _ones(spoke[is_inner], place[key[is_inner]], spokes.nnz, spokes.nnz)
    column = np.zeros(len(centres) * nodes, dtype=np.int32)
    column[key[is_outer]] = 1
    columns = int(column.sum())
    column = np.cumsum(column, dtype=np.int32) - 1
    outer = _ones(spoke[is_outer], column[key[is_outer]], spokes.nnz, columns)

    end = place[star * nodes + right]  # the spoke that each edge is
    itself = _ones(np.arange(len(end)), end, len(end), spokes.nnz)
    inner_end, outer_end = inner[end], outer[end]
    paths = outer_end @ outer.T
    through_spoke = _stored(paths - paths.multiply(inner_end + itself))
    touched = outer_end.copy()
    touched.data = np.bincount(outer.indices, minlength=columns)[outer_end.indices] - 1
    through_outer = _stored(touched - (inner_end @ outer).multiply(outer_end))

    nodes_in_cycles = np.diff(through_spoke.indptr) + np.diff(through_outer.indptr)
    most = np.maximum(_row_max(through_spoke), _row_max(through_outer))
    term: np.ndarray = nodes_in_cycles / np.maximum(most, 1)
    return term


def _ones(row: np.ndarray, column: np.ndarray, rows: int, columns: int) -> sp.csr_array:
    """Ones at the given places, which come row by row."""
    indptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=rows))]).astype(np.int32)
    return sp.csr_array((np.ones(len(row), dtype=np.int32), column.astype(np.int32), indptr), shape=(rows, columns))


def _stored(matrix: sp.sparray) -> sp.csr_array:
    """The same matrix that stores no zeros."""
    matrix = sp.csr_array(matrix)
    matrix.eliminate_zeros()
    return matrix


def _row_max(matrix: sp.csr_array) -> np.ndarray:
    """Largest entry of each row, 0 if it has none."""
    largest: np.ndarray = matrix.max(axis=1).toarray().ravel() if matrix.shape[1] else np.zeros(matrix.shape[0])
    return largest
