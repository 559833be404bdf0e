"""Which real rows are nearest to memory rows: cosines, in chunks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from delome.graph.sparse import Features, to_dense

CHUNK_ROWS = 8192


@dataclass(frozen=True)
class Nearest:
    """Of each memory row the two largest cosines with nodes and the node of the first; of each node its largest one."""

    first: np.ndarray
    second: np.ndarray
    node: np.ndarray
    of_nodes: np.ndarray


def unit(rows: Features) -> Features:
    """Rows of length 1; zeros stay zeros."""
    if isinstance(rows, np.ndarray):
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        scaled: np.ndarray = rows / np.maximum(lengths, np.finfo(np.float32).tiny)
        return scaled
    lengths = np.sqrt(rows.power(2).sum(axis=1))
    scale = 1 / np.maximum(np.asarray(lengths).ravel(), np.finfo(np.float32).tiny)
    return sp.csr_array(sp.diags_array(scale) @ rows)


def nearest(memory: Features, nodes: Features) -> Nearest:
    """What is nearest to what, by cosine; of a single node the second cosine is -1."""
    wanted = np.ascontiguousarray(to_dense(unit(memory)).T)
    count = wanted.shape[1]
    best = np.full((2, count), -1.0, dtype=np.float32)
    node = np.zeros(count, dtype=np.int64)
    of_nodes = np.empty(nodes.shape[0], dtype=np.float32)
    for start in range(0, nodes.shape[0], CHUNK_ROWS):
        cosines = np.asarray(unit(nodes[start : start + CHUNK_ROWS]) @ wanted, dtype=np.float32)
        of_nodes[start : start + CHUNK_ROWS] = cosines.max(axis=1)
        order = cosines.argmax(axis=0)
        top = cosines[order, np.arange(count)]
        cosines[order, np.arange(count)] = -1.0
        runner_up = cosines.max(axis=0)
        node = np.where(top > best[0], start + order, node)
        best = np.sort(np.stack([*best, top, runner_up]), axis=0)[-2:][::-1]
    return Nearest(best[0], best[1], node, of_nodes)
