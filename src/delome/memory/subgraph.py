"""Memory of sparsified subgraphs: random nodes with a few chosen neighbours, to replay message passing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np

from delome.columns import LabelColumns
from delome.graph import Graph
from delome.memory.bank import Memory
from delome.memory.curvature import BLOCK_SIZE, balanced_forman, blocks, undirected
from delome.stream import Observation
from delome.tracking import Tracker

CurvatureKind = Literal["auto", "bfc", "bfc3"]

PATHS_COUNTED = 10**8
"""Paths of two edges up to which ``auto`` counts 4-cycles: their cost grows with these."""


@dataclass(frozen=True)
class Candidates:
    """Nodes that some centres may retain next, one entry for each centre and node.

    Several nodes of a centre's frontier may receive messages from the same node, its ``parents``: those of candidate c
    are ``parents[first[c] : first[c + 1]]``.
    """

    nodes: np.ndarray
    parents: np.ndarray
    first: np.ndarray


NeighbourRule: TypeAlias = Callable[[Graph, Candidates, np.random.Generator], np.ndarray]
"""Gives each candidate a score. A centre retains those that score highest; ties fall at random."""


def uniform(graph: Graph, candidates: Candidates, rng: np.random.Generator) -> np.ndarray:
    """No candidate is better than another: uniform sampling without replacement."""
    return np.zeros(len(candidates.nodes))


def degree(graph: Graph, candidates: Candidates, rng: np.random.Generator) -> np.ndarray:
    """Sampling without replacement with probability ∝ (weighted) in-degree d, self-loop counted.

    The largest of log d + Gumbel noise are such a sample, drawn one after the other.
    """
    degrees = graph.adjacency.sum(axis=1)[candidates.nodes] + 1
    keys: np.ndarray = np.log(degrees) + rng.gumbel(size=len(degrees))
    return keys


@dataclass(frozen=True)
class Curvature:
    """κ(u) = max over parents p of Ric(u, p): what reaches the centre without passing a bottleneck.

    ``bfc`` is the balanced Forman curvature of the graph without directions, ``bfc3`` leaves out its 4-cycles, which is
    much cheaper on a dense graph; ``auto`` does so on graphs with many paths of two edges.
    """

    kind: CurvatureKind = "auto"

    def __call__(self, graph: Graph, candidates: Candidates, rng: np.random.Generator) -> np.ndarray:
        graph.refuse_weights("curvature (SEM)")
        nodes = np.repeat(candidates.nodes, np.diff(candidates.first))
        # centres share many edges
        edges, edge = np.unique(candidates.parents * graph.num_nodes + nodes, return_inverse=True)
        parents, nodes = np.divmod(edges, graph.num_nodes)
        adjacency = graph.cached("undirected", lambda: undirected(graph.adjacency))
        paths = np.square(np.diff(adjacency.indptr), dtype=np.float64).sum()
        four_cycles = self.kind == "bfc" or (self.kind == "auto" and paths <= PATHS_COUNTED)
        curvature = balanced_forman(adjacency, parents, nodes, four_cycles)
        # equal curvatures must tie, whatever the order of their terms left in the last digits
        best: np.ndarray = np.maximum.reduceat(curvature.round(9)[edge], candidates.first[:-1])
        return best


@dataclass(frozen=True)
class SubgraphMemory:
    """``budget`` training nodes per class with their sparsified 2-hop neighbourhoods, and all edges among these nodes.

    Each centre v starts with F₀ = {v} and retains at hop l the ``neighbours[l]`` best candidates F_l among the nodes
    N_in(F_{l−1}) that it has not yet retained. The ``rule`` says what is best: `uniform` or `degree` (SSM: Zhang, Song,
    Tao, 2022, "Sparsified Subgraph Memory for Continual Graph Representation Learning"), or `Curvature` (SEM: Zhang,
    Song, Tao, 2023, "Ricci Curvature-Based Graph Sparsification for Continual Graph Representation Learning").
    Only centres carry loss: neighbours are context, may be any nodes of the task, and come without labels.
    """

    budget: int
    neighbours: tuple[int, int] = (5, 5)
    rule: NeighbourRule = uniform

    def build(
        self, observation: Observation, columns: LabelColumns, rng: np.random.Generator, tracker: Tracker
    ) -> Memory:
        graph = observation.graph
        members = [observation.train[observation.labels == column] for column in observation.classes]
        chosen = [rng.choice(nodes, min(self.budget, len(nodes)), replace=False) for nodes in members]
        with tracker.phase("memory") as step:
            cut, rows = self._cut(graph, np.concatenate(chosen), rng)
            step()
        labels = np.repeat(observation.classes, [len(nodes) for nodes in chosen])
        return Memory(observation.index, cut, rows, labels)

    def _cut(self, graph: Graph, centres: np.ndarray, rng: np.random.Generator) -> tuple[Graph, np.ndarray]:
        """What centres retain of a graph, and the centres' numbers in it."""
        _, retained = retained_pairs(graph, centres, self.neighbours, self.rule, rng)
        stored = np.unique(retained)
        return graph.subgraph(stored), np.searchsorted(stored, centres)

    def thin(self, memory: Memory, positions: np.ndarray, rng: np.random.Generator) -> Memory:
        """The memory of some of its centres, each with as many of the stored neighbours as it may retain."""
        thinned = memory.select(positions)
        graph, rows = self._cut(memory.graph, memory.rows[positions], rng)
        return replace(thinned, graph=graph, rows=rows)


def retained_pairs(
    graph: Graph, centres: np.ndarray, neighbours: tuple[int, int], rule: NeighbourRule, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Pairs (c, node): what the c-th of the centres retains, itself among it."""
    # a pair is coded as one number: codes are sorted, compared and looked up at once for all centres
    retained = frontier = np.arange(len(centres), dtype=np.int64) * graph.num_nodes + centres
    for quota in neighbours:
        frontier = _next_frontier(graph, frontier, retained, quota, rule, rng)
        retained = np.concatenate([retained, frontier])
    return np.divmod(retained, graph.num_nodes)


def _next_frontier(
    graph: Graph, frontier: np.ndarray, retained: np.ndarray, quota: int, rule: NeighbourRule, rng: np.random.Generator
) -> np.ndarray:
    """For each centre the ``quota`` best new in-neighbours of its frontier, as sorted codes of pairs."""
    if quota == 0 or len(frontier) == 0:
        return frontier[:0]
    owners, parents = np.divmod(frontier, graph.num_nodes)
    received = np.diff(graph.adjacency.indptr)[parents]
    kept = []
    for block in blocks(np.bincount(owners, weights=received).astype(np.int64), BLOCK_SIZE):
        start, stop = np.searchsorted(owners, [block.start, block.stop])
        pairs, candidates = _candidates(graph, owners[start:stop], parents[start:stop], retained)
        score = rule(graph, candidates, rng)
        owner = pairs // graph.num_nodes
        best = np.lexsort((rng.random(len(pairs)), -score, owner))
        rank = np.arange(len(best)) - np.searchsorted(owner, owner)  # lexsort leaves the owners as they are: sorted
        kept.append(np.sort(pairs[best[rank < quota]]))
    return np.concatenate(kept)


def _candidates(
    graph: Graph, owners: np.ndarray, parents: np.ndarray, retained: np.ndarray
) -> tuple[np.ndarray, Candidates]:
    """Sorted codes of the pairs that are candidates, and the candidates."""
    received = graph.adjacency[parents]
    count = np.diff(received.indptr)
    pairs = np.repeat(owners, count) * graph.num_nodes + received.indices
    parents = np.repeat(parents, count)
    new = np.flatnonzero(~np.isin(pairs, retained))
    order = new[np.argsort(pairs[new], kind="stable")]
    pairs, parents = pairs[order], parents[order]
    first = np.flatnonzero(np.diff(pairs, prepend=-1))
    nodes = pairs[first] % graph.num_nodes
    return pairs[first], Candidates(nodes, parents, np.append(first, len(pairs)))
