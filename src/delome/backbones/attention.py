"""Attention over the in-edges of nodes: softmax over edges, weighted sums, and the norm of a topology (TWP)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from delome.graph import Graph
from delome.graph.sparse import narrow, torch_csr

NEGATIVE_SLOPE = 0.2
"""Of the leaky ReLU in attention scores."""

EDGES_AT_ONCE = 2**18
"""Edges whose end points' rows are gathered at the same time."""


class InEdges:
    """Edges into some nodes, self-loops included: row v of ``pattern`` lists the sources of target v.

    ``own[v]`` is the position of target v among the sources.
    """

    def __init__(self, pattern: sp.csr_array, own: np.ndarray, device: torch.device) -> None:
        self.pattern, self.own, self.device = pattern, own, device

    @classmethod
    def of(cls, graph: Graph, device: torch.device) -> InEdges:
        """All edges of a graph."""
        graph.refuse_weights("attention between neighbours (GAT, TWP)")
        return cls(graph.operator(), np.arange(graph.num_nodes), device)

    def select(self, index: np.ndarray) -> tuple[InEdges, np.ndarray]:
        """Edges into the chosen targets, and the sources they have, which are numbered anew."""
        pattern, sources = narrow(self.pattern[index])
        return InEdges(pattern, np.searchsorted(sources, self.own[index]), self.device), sources

    @classmethod
    def join(cls, parts: Sequence[InEdges]) -> InEdges:
        """Disjoint union."""
        offsets = np.cumsum([0, *(part.pattern.shape[1] for part in parts[:-1])])
        union = sp.csr_array(sp.block_diag([part.pattern for part in parts], format="csr"))
        own = np.concatenate([part.own + offset for part, offset in zip(parts, offsets, strict=True)])
        return cls(union, own, parts[0].device)

    @cached_property
    def sources(self) -> Tensor:
        return torch.from_numpy(self.pattern.indices.astype(np.int64)).to(self.device)

    @cached_property
    def targets(self) -> Tensor:
        counts = np.diff(self.pattern.indptr)
        return torch.from_numpy(np.repeat(np.arange(len(counts)), counts)).to(self.device)

    @cached_property
    def _forwards(self) -> Tensor:
        return torch_csr(self.pattern, self.device)

    @cached_property
    def _backwards(self) -> Tensor:
        return torch_csr(sp.csr_array(self.pattern.T), self.device)

    @cached_property
    def _by_source(self) -> Tensor:
        return torch.sort(self.sources, stable=True).indices

    def product(self, weights: Tensor, values: Tensor) -> Tensor:
        """Sum over each target's edges of weight times the source's values."""
        return _with_values(self._forwards, weights) @ values

    def transposed_product(self, weights: Tensor, values: Tensor) -> Tensor:
        """Sum over each source's edges of weight times the target's values."""
        return _with_values(self._backwards, weights[self._by_source]) @ values

    def chunks(self, edges: int) -> list[tuple[slice, slice]]:
        """Runs of targets (and their edges) of about this many edges each."""
        indptr = self.pattern.indptr
        wanted = np.arange(0, int(indptr[-1]), edges)
        starts = np.unique(np.searchsorted(indptr, wanted, side="right") - 1)
        ends = [*starts[1:], len(indptr) - 1]
        return [
            (slice(int(a), int(b)), slice(int(indptr[a]), int(indptr[b]))) for a, b in zip(starts, ends, strict=True)
        ]


def _with_values(pattern: Tensor, values: Tensor) -> Tensor:
    return torch.sparse_csr_tensor(
        pattern.crow_indices(), pattern.col_indices(), values, size=pattern.shape, check_invariants=False
    )


def edge_softmax(scores: Tensor, targets: Tensor, count: int) -> Tensor:
    """Softmax of ``scores`` (edges × heads) over the in-edges of each of ``count`` targets, which all have one."""
    index = targets[:, None].expand_as(scores)
    largest = scores.new_full((count, scores.shape[1]), -torch.inf)
    largest = largest.scatter_reduce(0, index, scores.detach(), "amax")
    weights = (scores - largest[targets]).exp()
    total = weights.new_zeros(count, scores.shape[1]).index_add(0, targets, weights)
    return weights / total[targets]


def attend(weights: Tensor, values: Tensor, edges: InEdges) -> Tensor:
    """``Σ_{u→v} α_uv x_u`` for every head: weights edges × heads, values sources × heads × d."""
    summed: Tensor = _Attend.apply(weights, values, edges)
    return summed


class _Attend(torch.autograd.Function):
    """Sparse products head by head: nothing of size edges × d is kept."""

    @staticmethod
    def forward(ctx: Any, weights: Tensor, values: Tensor, edges: InEdges) -> Tensor:
        ctx.save_for_backward(weights, values)
        ctx.edges = edges
        heads = zip(weights.T.contiguous(), values.unbind(dim=1), strict=True)
        return torch.stack([edges.product(alpha, part.contiguous()) for alpha, part in heads], dim=1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        weights, values = ctx.saved_tensors
        edges: InEdges = ctx.edges
        (gradient,) = gradients
        heads = zip(weights.T.contiguous(), gradient.unbind(dim=1), strict=True)
        by_values = torch.stack([edges.transposed_product(alpha, part.contiguous()) for alpha, part in heads], dim=1)
        by_weights = torch.empty_like(weights)
        for _, chunk in edges.chunks(EDGES_AT_ONCE):
            ends = gradient[edges.targets[chunk]], values[edges.sources[chunk]]
            by_weights[chunk] = (ends[0] * ends[1]).sum(dim=2)
        return by_weights, by_values, None


def topology_norm(rows: Tensor, edges: InEdges, edges_at_once: int = EDGES_AT_ONCE) -> Tensor:
    """``‖α‖₂`` of α_uv = softmax over the in-edges of v of LeakyReLU(⟨h_u, tanh h_v⟩), for rows h (Liu et al., 2021).

    Differentiable in ``rows``; memory for a chunk of edges only.
    """
    total = rows.new_zeros(())
    for targets, chunk in edges.chunks(edges_at_once):

        def squared_sum(rows: Tensor, targets: slice = targets, chunk: slice = chunk) -> Tensor:
            into = edges.targets[chunk]
            ends = rows[edges.sources[chunk]], rows[into].tanh()
            scores = functional.leaky_relu((ends[0] * ends[1]).sum(dim=1, keepdim=True), NEGATIVE_SLOPE)
            return edge_softmax(scores, into - targets.start, targets.stop - targets.start).square().sum()

        total = total + checkpoint(squared_sum, rows, use_reentrant=False, preserve_rng_state=False)
    return total.sqrt()
