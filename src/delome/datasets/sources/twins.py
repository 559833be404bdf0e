"""Twins of the published datasets: generated graphs of the same size, skew and homophily, at any scale.

A twin has the nodes, edges, features and classes of its original, its spread of class sizes and degrees and its
share of edges inside a class; which node is joined to which, and what its features are, is drawn from a seed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from delome.errors import DatasetError, unknown
from delome.graph import Graph
from delome.graph.sparse import Features
from delome.randomness import generator

CHUNK = 4_000_000
"""Edges or feature values drawn at once: what bounds the temporary arrays."""

LEAST_NODES = 5
"""Nodes that every class keeps at any scale: enough for its training, validation and test nodes."""

ROOM = 1.5
"""Pairs of nodes of one class there must be for each edge inside a class; with fewer, drawing new ones is hopeless."""


@dataclass(frozen=True)
class Gaussian:
    """Dense features: a class centre of unit length plus normal noise of this typical length."""

    noise: float

    def draw(self, labels: np.ndarray, classes: int, features: int, rng: np.random.Generator) -> np.ndarray:
        """Nodes × features, float32, filled block by block."""
        centres = rng.standard_normal((classes, features), dtype=np.float32)
        centres /= np.linalg.norm(centres, axis=1, keepdims=True)
        values = np.empty((len(labels), features), dtype=np.float32)
        for rows in _chunks(len(labels), max(CHUNK // features, 1)):
            block = values[rows]
            rng.standard_normal(dtype=np.float32, out=block)
            block *= np.float32(self.noise / math.sqrt(features))
            block += centres[labels[rows]]
        return values


@dataclass(frozen=True)
class Words:
    """Sparse 0/1 features: words of a document, a share of them from the topic of its class, the rest common.

    ``density`` is the share of non-zero values. Words are drawn by Zipf's law; a topic is ``topic_words`` of them.
    """

    density: float
    topic_share: float
    topic_words: int = 200
    length_spread: float = 0.4

    def draw(self, labels: np.ndarray, classes: int, features: int, rng: np.random.Generator) -> sp.csr_array:
        """Nodes × features, float32 ones, at least one word a node."""
        nodes = len(labels)
        common, topical = _zipf(features), _zipf(self.topic_words)
        topics = np.stack([rng.choice(features, self.topic_words, replace=False) for _ in range(classes)])

        def words_of(documents: np.ndarray) -> np.ndarray:
            words = _ranks(common, len(documents), rng)
            on_topic = np.flatnonzero(rng.random(len(documents)) < self.topic_share)
            words[on_topic] = topics[labels[documents[on_topic]], _ranks(topical, len(on_topic), rng)]
            return _keys(documents, words)

        wanted = round(self.density * nodes * features)
        documents = np.repeat(np.arange(nodes), _repeats(nodes, self.length_spread, wanted, rng))
        keys = _distinct(documents, wanted, words_of, rng)
        return _csr(keys, (nodes, features), np.ones(len(keys), dtype=np.float32))


@dataclass(frozen=True)
class Shape:
    """Statistics of a published graph.

    ``edges`` counts directed edges as loaders store them: both directions of an undirected one. Class sizes fall
    from ``largest`` to ``smallest`` by the law of ``class_sizes``. The spreads are the standard deviation of the
    logarithm of a node's degree, received and sent; an undirected graph has only one. ``strays`` is the share of
    nodes without a neighbour of their own class: where degrees are high, averaging over neighbours would otherwise
    tell every node's class without fail, whatever the noise.
    """

    nodes: int
    edges: int
    features: int
    classes: int
    largest: int
    smallest: int
    homophily: float
    spread: float
    content: Gaussian | Words
    sent_spread: float | None = None
    strays: float = 0.0

    @property
    def directed(self) -> bool:
        return self.sent_spread is not None


TWINS: dict[str, Shape] = {
    # CitationFull's Cora as loaders give it, both directions, without its repeated edges; classes of 15 to 928
    "corafull": Shape(
        19_793, 126_842, 8_710, 70, 928, 15, homophily=0.567, spread=0.97, content=Words(0.007, topic_share=0.02)
    ),
    # OGB's directed citations: an edge u → v is u citing v, and few papers receive most of the citations
    "arxiv": Shape(
        169_343, 1_166_243, 128, 40, 27_321, 29, homophily=0.655, spread=1.96, sent_spread=1.04, content=Gaussian(10.0)
    ),
    # GraphSAGE's posts; its largest and smallest class and its degrees are known here only roughly
    "reddit": Shape(
        232_965, 114_615_892, 602, 41, 28_000, 300, homophily=0.756, spread=1.0, content=Gaussian(4.0), strays=0.05
    ),
    # OGB's co-purchases; the median degree is about half the mean
    "products": Shape(
        2_449_029, 123_718_280, 100, 47, 668_950, 1, homophily=0.808, spread=1.15, content=Gaussian(8.0), strays=0.15
    ),
}


def twin(name: str, scale: float = 1.0, seed: int = 0) -> Graph:
    """Generated graph with the statistics of a published one; ``scale`` multiplies nodes and edges.

    Classes, features and the average degree stay. The same name, scale and seed give the same bits.

    >>> twin("arxiv", scale=0.01)
    Graph(nodes=1693, edges=11662, features=128, classes=40)
    """
    if name not in TWINS:
        raise DatasetError(unknown("twin", name, TWINS))
    shape = TWINS[name]
    _check(name, shape, scale, seed)
    sizes = class_sizes(shape, scale)
    # part of what the twin is: large and small tasks come in the same order at every seed and scale; the smallest
    # class stays last, because a stream of pairs leaves out the last of an odd number
    sizes[:-1] = generator(0, f"{name} twin: classes").permutation(sizes[:-1])
    rng = generator(seed, f"{name} twin")
    members = rng.permutation(int(sizes.sum())).astype(np.int32)
    labels = np.empty(len(members), dtype=np.int64)
    labels[members] = np.repeat(np.arange(shape.classes), sizes)
    adjacency = _adjacency(shape, members, sizes, labels, round(shape.edges * scale), rng)
    features: Features = shape.content.draw(labels, shape.classes, shape.features, rng)
    return Graph._trusted(adjacency, features, labels, undirected=not shape.directed)


def class_sizes(shape: Shape, scale: float = 1.0) -> np.ndarray:
    """Nodes of each class, largest first: size(r) = smallest · (largest/smallest)^((1 − r/(C−1))^p).

    The exponent p is the one for which the sizes add up to the published number of nodes; p = 1 is a geometric law.
    """
    rank = 1 - np.arange(shape.classes) / (shape.classes - 1)
    ratio = shape.largest / shape.smallest
    low, high = 0.01, 100.0
    for _ in range(100):
        power = (low + high) / 2
        published = shape.smallest * ratio ** (rank**power)
        low, high = (power, high) if published.sum() > shape.nodes else (low, power)
    nodes = round(shape.nodes * scale)
    sizes = np.floor(_at_least(published, LEAST_NODES, nodes) + 1e-9).astype(np.int64)
    sizes[: nodes - sizes.sum()] += 1
    return sizes


def _check(name: str, shape: Shape, scale: float, seed: int) -> None:
    """Refuses a scale at which no such graph exists."""
    if seed < 0:
        raise DatasetError(f"twin {name}: seed must not be negative")
    if not 0 < scale < math.inf:
        raise DatasetError(f"twin {name}: scale must be greater than 0 and finite, not {scale:g}")
    if shape.edges * scale >= 2**31:
        raise DatasetError(
            f"twin {name}: scale {scale:g} gives {shape.edges * scale:,.0f} edges, more than 32-bit indices can count: "
            f"take a scale below {2**31 / shape.edges:.3g}"
        )
    least = LEAST_NODES * shape.classes / shape.nodes
    if scale < least:
        raise DatasetError(
            f"twin {name}: scale {scale:g} leaves fewer than {LEAST_NODES} nodes for each of {shape.classes} classes: "
            f"take a scale of {_rounded_up(least):g} or more"
        )
    if not _has_room(shape, scale):
        enough = scale
        while not _has_room(shape, enough):
            enough *= 1.02
        raise DatasetError(
            f"twin {name}: at scale {scale:g} its classes are too small for {shape.edges / shape.nodes:.0f} edges a "
            f"node: take a scale of {_rounded_up(enough):g} or more"
        )


def _has_room(shape: Shape, scale: float) -> bool:
    """Whether classes have pairs of nodes enough for the edges inside them; pairs grow with the scale squared."""
    sizes = class_sizes(shape, scale)
    return bool((sizes * (sizes - 1)).sum() >= ROOM * shape.homophily * shape.edges * scale)


def _rounded_up(value: float) -> float:
    """Two significant digits that are not below the value."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return float(f"{math.ceil(value / unit) * unit:.2g}")


@dataclass(frozen=True)
class _Ends:
    """Every node as often as it is to have edges, class after class: drawing from it draws by degree."""

    nodes: np.ndarray
    first: np.ndarray
    count: np.ndarray

    @classmethod
    def of(cls, members: np.ndarray, sizes: np.ndarray, repeats: np.ndarray) -> _Ends:
        count = np.add.reduceat(repeats, np.cumsum(sizes) - sizes)
        return cls(np.repeat(members, repeats), np.cumsum(count) - count, count)

    def partners(self, own: np.ndarray, inside: bool, rng: np.random.Generator) -> np.ndarray:
        """A node of the class ``own``, or of any other class, for each entry."""
        first, count = self.first[own], self.count[own]
        position = (rng.random(len(own)) * (count if inside else len(self.nodes) - count)).astype(np.int64)
        position += first if inside else np.where(position >= first, count, 0)
        chosen: np.ndarray = self.nodes[position]
        return chosen


def _adjacency(
    shape: Shape, members: np.ndarray, sizes: np.ndarray, labels: np.ndarray, edges: int, rng: np.random.Generator
) -> sp.csr_array:
    """Edges by degree, the homophilous share of them inside a class; no self-loops, no repeated edges."""
    if shape.directed:
        keys = _edges(shape, members, sizes, labels, edges, rng)
    else:
        keys = _both_directions(_edges(shape, members, sizes, labels, edges // 2, rng))
    keys.sort()
    return _csr(keys, (len(members), len(members)), np.ones(len(keys), dtype=bool))


def _edges(
    shape: Shape, members: np.ndarray, sizes: np.ndarray, labels: np.ndarray, edges: int, rng: np.random.Generator
) -> np.ndarray:
    """Distinct (target, source) keys; of an undirected edge only the one with the larger node first."""
    stray = rng.random(len(members)) < shape.strays
    sent = _repeats(len(members), shape.sent_spread or shape.spread, edges, rng)
    received = _repeats(len(members), shape.spread, edges, rng) if shape.directed else sent

    def drawn(inside: bool, sources: np.ndarray, wanted: int) -> np.ndarray:
        receivers = _Ends.of(members, sizes, received * ~stray if inside else received)

        def edges_of(source: np.ndarray) -> np.ndarray:
            target = receivers.partners(labels[source], inside, rng)
            proper = source != target
            source, target = source[proper], target[proper]
            if shape.directed:
                return _keys(target, source)
            return _keys(np.maximum(source, target), np.minimum(source, target))

        return _distinct(sources, wanted, edges_of, rng)

    # every node sends as often as it is to, so hardly any is left without an edge
    share_inside = np.where(stray, 0, shape.homophily / (1 - shape.strays)).astype(np.float32)
    inside = rng.random(int(sent.sum()), dtype=np.float32) < np.repeat(share_inside, sent)
    sources = np.repeat(members, sent)
    within = round(edges * shape.homophily)
    return np.concatenate([drawn(True, sources[inside], within), drawn(False, sources[~inside], edges - within)])


def _keys(row: np.ndarray, column: np.ndarray) -> np.ndarray:
    """(row, column) as one number, ordered by row and then by column."""
    keys = row.astype(np.int64)
    keys <<= 32
    keys |= column
    return keys


def _both_directions(keys: np.ndarray) -> np.ndarray:
    """(row, column) and (column, row)."""
    both = np.empty(2 * len(keys), dtype=np.int64)
    for part in _chunks(len(keys), CHUNK):
        both[part] = keys[part]
        both[len(keys) :][part] = (keys[part] << 32) | (keys[part] >> 32)
    return both


def _csr(keys: np.ndarray, shape: tuple[int, int], data: np.ndarray) -> sp.csr_array:
    """CSR matrix of sorted distinct (row, column) keys, with 32-bit indices."""
    starts = np.searchsorted(keys, np.arange(shape[0] + 1) << 32).astype(np.int32)
    matrix = sp.csr_array((data, keys.astype(np.int32), starts), shape=shape)  # the low half of a key is its column
    matrix.has_canonical_format = True
    return matrix


def _distinct(
    rows: np.ndarray, wanted: int, drawn_for: Callable[[np.ndarray], np.ndarray], rng: np.random.Generator
) -> np.ndarray:
    """Exactly ``wanted`` distinct sorted keys: one drawn for each row, then more for rows drawn from them again."""
    found = _sorted_distinct(np.concatenate([drawn_for(rows[part]) for part in _chunks(len(rows), CHUNK)]))
    found = _without_surplus(found, wanted, rng)
    share_new = 1.0
    while len(found) < wanted:
        missing = wanted - len(found)
        tries = min(math.ceil(missing / share_new) + 16, CHUNK)
        fresh = _sorted_distinct(drawn_for(rows[rng.integers(len(rows), size=tries)]))
        at = np.searchsorted(found, fresh)
        fresh = fresh[found[np.minimum(at, len(found) - 1)] != fresh]
        share_new = max(len(fresh) / tries, 0.01)
        found = np.concatenate([found, _without_surplus(fresh, missing, rng)])
        found.sort(kind="stable")  # two sorted runs: merged in one pass
    return found


def _sorted_distinct(keys: np.ndarray) -> np.ndarray:
    keys.sort()
    new = np.ones(len(keys), dtype=bool)
    np.not_equal(keys[1:], keys[:-1], out=new[1:])
    return keys[new]


def _without_surplus(keys: np.ndarray, wanted: int, rng: np.random.Generator) -> np.ndarray:
    surplus = len(keys) - wanted
    return keys if surplus <= 0 else np.delete(keys, rng.choice(len(keys), surplus, replace=False, shuffle=False))


def _repeats(nodes: int, spread: float, total: int, rng: np.random.Generator) -> np.ndarray:
    """Whole numbers from 1 with a log-normal law that add up to about ``total``."""
    weights = np.exp(spread * rng.standard_normal(nodes))
    return np.floor(_at_least(weights, 1, total) + rng.random(nodes)).astype(np.int64)


def _at_least(weights: np.ndarray, least: float, total: float) -> np.ndarray:
    """max(least, c · weights) with the factor c for which these add up to ``total``."""
    raised = np.zeros(len(weights), dtype=bool)
    while True:
        factor = (total - least * raised.sum()) / max(weights[~raised].sum(), np.finfo(float).tiny)
        more = factor * weights < least
        if not (more & ~raised).any():
            return np.where(raised, least, factor * weights)
        raised |= more


def _zipf(words: int) -> np.ndarray:
    """Cumulative probabilities of ranks under Zipf's law."""
    cumulative = np.cumsum(1 / np.arange(1, words + 1))
    return np.asarray(cumulative / cumulative[-1])


def _ranks(cumulative: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    return np.minimum(np.searchsorted(cumulative, rng.random(count)), len(cumulative) - 1)


def _chunks(length: int, size: int) -> Iterator[slice]:
    return (slice(start, min(start + size, length)) for start in range(0, max(length, 1), size))
