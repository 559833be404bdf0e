"""Sampled neighbourhoods: a few random in-neighbours of each node and hop, instead of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import scipy.sparse as sp

from delome.backbones.backbone import Block, Inputs, Network, offered
from delome.graph import Graph
from delome.graph.sparse import narrow

Fanouts = tuple[int, int]


def sample_block(graph: Graph, nodes: np.ndarray, fanout: int, rng: np.random.Generator) -> tuple[Block, np.ndarray]:
    """Block of nodes with at most ``fanout`` of their in-neighbours each, uniformly without replacement, and their
    self-loops; and the sources in it.

    >>> star = Graph([[1, 2, 3], [0, 0, 0]], [[1.0]] * 4, undirected=False)
    >>> block, sources = sample_block(star, np.array([0, 2]), 2, np.random.default_rng(0))
    >>> np.diff(block.pattern.indptr).tolist(), 0 in sources, 2 in sources
    ([3, 1], True, True)
    """
    received = graph.adjacency[nodes]
    row = np.repeat(np.arange(len(nodes)), np.diff(received.indptr))
    # the first few of a random order of each row
    order = np.lexsort((rng.random(len(row)), row))
    kept = order[np.arange(len(row)) - received.indptr[row] < fanout]
    rows = np.concatenate([row[kept], np.arange(len(nodes))])
    columns = np.concatenate([received.indices[kept], nodes])
    ones = np.ones(len(rows), dtype=np.float32)
    pattern, sources = narrow(sp.csr_array((ones, (rows, columns)), shape=(len(nodes), graph.num_nodes)))
    return Block(pattern, np.searchsorted(sources, nodes)), sources


@dataclass(frozen=True)
class SampledNodes:
    """Nodes of one or several graphs; a network reads them with neighbourhoods that are drawn anew for each step."""

    network: Network
    graphs: Sequence[Graph]
    graph: np.ndarray
    nodes: np.ndarray
    fanouts: Fanouts

    @classmethod
    def of(cls, network: Network, graph: Graph, nodes: np.ndarray, fanouts: Fanouts) -> SampledNodes:
        """Nodes of one graph."""
        offered(network.backbone, "read_blocks", "fanout")
        graph.refuse_weights("sampling of neighbours (fanout)")
        return cls(network, [graph], np.zeros(len(nodes), dtype=np.int64), nodes, fanouts)

    def __len__(self) -> int:
        return len(self.nodes)

    def select(self, index: np.ndarray) -> SampledNodes:
        return SampledNodes(self.network, self.graphs, self.graph[index], self.nodes[index], self.fanouts)

    def draw(self, rng: np.random.Generator) -> Inputs:
        """The nodes with neighbours at hop 1, and those with theirs at hop 2."""
        read_blocks = offered(self.network.backbone, "read_blocks", "fanout")
        parts, order = [], []
        for number in np.unique(self.graph):
            own = np.flatnonzero(self.graph == number)
            graph = self.graphs[number]
            outer, reached = sample_block(graph, self.nodes[own], self.fanouts[0], rng)
            inner, read = sample_block(graph, reached, self.fanouts[1], rng)
            parts.append(read_blocks(graph.features[read], inner, outer, self.network.device))
            order.append(own)
        if len(parts) == 1:
            drawn: Inputs = parts[0]
            return drawn
        joined: Inputs = self.network.backbone.join(parts).select(np.argsort(np.concatenate(order)))
        return joined


def join(network: Network, parts: Sequence[Inputs]) -> Inputs:
    """Disjoint union of inputs, sampled or prepared."""
    if not isinstance(parts[0], SampledNodes):
        joined: Inputs = network.backbone.join(parts)
        return joined
    sampled = cast(Sequence[SampledNodes], parts)
    offsets = np.cumsum([0, *(len(part.graphs) for part in sampled[:-1])])
    return SampledNodes(
        network,
        [graph for part in sampled for graph in part.graphs],
        np.concatenate([part.graph + offset for part, offset in zip(sampled, offsets, strict=True)]),
        np.concatenate([part.nodes for part in sampled]),
        sampled[-1].fanouts,
    )
