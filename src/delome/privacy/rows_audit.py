"""Attacks on memory rows: copies, nearest nodes, the nodes they were made from, words, and membership."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from delome.graph.sparse import Features, to_dense
from delome.privacy.measure import Measure, area, grouped_proportion, hits_at, mean_against, proportion
from delome.privacy.similarity import nearest
from delome.privacy.sources import is_copy
from delome.privacy.subject import ClassRows

NEAR = 0.95
"""Cosine from which a row is a near copy."""
SPARSE = 0.2
"""Share of columns that a row of words uses at most."""
TINY = 1e-6
"""Added to distances, of which that of a copy is zero."""

Measures = dict[str, Measure]


@dataclass(frozen=True)
class Evidence:
    """What is measured of the memory rows of a class (a line each, training beside held-out), and of its nodes."""

    copies: np.ndarray
    cosines: np.ndarray
    gaps: np.ndarray
    words: np.ndarray
    twins: np.ndarray
    identified: np.ndarray
    chance: np.ndarray
    members: np.ndarray
    others: np.ndarray


def evidence(rows: ClassRows, rng: np.random.Generator) -> Evidence:
    """Compares the memory with as many training as held-out nodes, and asks which training node a row was made from."""
    size = min(rows.train.shape[0], rows.held_out.shape[0])
    sides = [part[np.sort(rng.choice(part.shape[0], size, replace=False))] for part in (rows.train, rows.held_out)]
    found = [nearest(rows.memory, side) for side in sides]
    memory = to_dense(rows.memory)
    twins = [to_dense(side[each.node]) for side, each in zip(sides, found, strict=True)]
    gaps = [1 - (1 - each.first + TINY) / (1 - each.second + TINY) for each in found]
    everyone = [nearest(rows.memory, side) for side in (rows.train, rows.held_out)]
    nearest_rows = [to_dense(side[each.node]) for side, each in zip((rows.train, rows.held_out), everyone, strict=True)]
    identified, chance = _identified(rows, everyone[0].node, everyone[0].first > everyone[1].first)
    return Evidence(
        copies=np.stack([is_copy(memory, twin) for twin in nearest_rows]),
        cosines=np.stack([each.first for each in found]),
        gaps=np.stack(gaps),
        words=_words(memory, twins) if _is_words(rows.held_out) else np.empty((2, 0)),
        twins=np.where(found[0].first > found[1].first, found[0].node, size + found[1].node),
        identified=identified,
        chance=chance,
        members=everyone[0].of_nodes,
        others=everyone[1].of_nodes,
    )


def _identified(rows: ClassRows, node: np.ndarray, trained: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Whether the nearest of all nodes of the class is one that a memory row was made from, and the share of nodes that
    are; nothing where no row is known to be made from nodes."""
    sources, count = rows.sources, rows.memory.shape[0]
    if sources is None or sources.shape != (count, rows.train.shape[0]):
        return np.empty(0, dtype=bool), np.empty(0)
    made_from = np.asarray(sources[np.arange(count), node]).ravel() != 0
    copied = is_copy(to_dense(rows.memory), to_dense(rows.train[node])) & (np.diff(sources.indptr) > 0)
    candidates = rows.train.shape[0] + rows.held_out.shape[0]
    return (made_from | copied) & trained, np.diff(sources.indptr) / candidates


def _is_words(rows: Features) -> bool:
    """Whether rows are few positive numbers among zeros, as of words that occur in a document."""
    if isinstance(rows, np.ndarray):
        return bool(rows.min(initial=0) >= 0 and (rows != 0).mean() <= SPARSE)
    return bool(rows.data.min(initial=0) >= 0 and rows.nnz <= SPARSE * np.prod(rows.shape))


def _words(memory: np.ndarray, twins: Sequence[np.ndarray]) -> np.ndarray:
    """F1 of the words of the nearest node, if as many of the largest numbers of a memory row are taken for them.

    As many are taken as there are words, so that precision and recall are the same.
    """
    order = np.argsort(np.argsort(-memory, axis=1), axis=1)
    found = []
    for twin in twins:
        there = twin > 0
        taken = order < there.sum(axis=1, keepdims=True)
        found.append((taken & there & (memory > 0)).sum(axis=1) / np.maximum(there.sum(axis=1), 1))
    return np.stack(found)


def measures(parts: Iterable[Evidence], rng: np.random.Generator) -> Measures:
    """All that is measured of memory rows; what cannot be measured is left out."""
    each = list(parts)
    if not each:
        return {}

    def joined(name: str) -> np.ndarray:
        return np.concatenate([getattr(part, name) for part in each], axis=-1)

    copies, cosines, words, gaps = joined("copies"), joined("cosines"), joined("words"), joined("gaps")
    near = cosines >= NEAR
    apart = cosines[0] != cosines[1]
    identified, members, others = joined("identified"), joined("members"), joined("others")
    # rows that share their nearest node are one observation of it, not several
    alike = np.unique(
        np.concatenate([np.stack([np.full(len(part.twins), k), part.twins]) for k, part in enumerate(each)], axis=1),
        axis=1,
        return_inverse=True,
    )[1].ravel()
    found = {
        "exact_copies": proportion(int(copies[0].sum()), copies.shape[1], float(copies[1].mean())),
        "near_copies": mean_against(near[0], near[1], alike, rng),
        "closer_to_training": grouped_proportion((cosines[0] > cosines[1])[apart], alike[apart], 0.5),
        "closest_cosine": mean_against(cosines[0], cosines[1], alike, rng, least=-1.0),
        "neighbour_gap": mean_against(gaps[0], gaps[1], alike, rng),
        "reidentified": None
        if len(identified) == 0
        else proportion(int(identified.sum()), len(identified), float(joined("chance").mean())),
        "words_f1": mean_against(words[0], words[1], alike, rng) if words.shape[1] == len(alike) else None,
        "membership_auc": area(members, others),
        "tpr_at_1pct_fpr": hits_at(members, others, 0.01),
        "tpr_at_0.1pct_fpr": hits_at(members, others, 0.001),
    }
    return {name: measure for name, measure in found.items() if measure is not None}


def planted(rows: ClassRows, rng: np.random.Generator) -> ClassRows:
    """The same with a memory that is a leak: copies of random training rows."""
    count = min(rows.memory.shape[0], rows.train.shape[0])
    chosen = rng.choice(rows.train.shape[0], count, replace=False)
    weights = sp.csr_array((np.ones(count), (np.arange(count), chosen)), shape=(count, rows.train.shape[0]))
    return rows.with_memory(rows.train[chosen], weights)


def noise(rows: ClassRows, rng: np.random.Generator) -> ClassRows:
    """The same with a memory that knows nothing of any node: noise, said to be made from random training nodes."""
    count = rows.memory.shape[0]
    drawn = rng.standard_normal(rows.memory.shape, dtype=np.float32)
    chosen = rng.integers(rows.train.shape[0], size=count)
    weights = sp.csr_array((np.ones(count), (np.arange(count), chosen)), shape=(count, rows.train.shape[0]))
    return rows.with_memory(drawn, weights)
