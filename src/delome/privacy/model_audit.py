"""Attacks on the trained model: who is a member by confidence, and who is linked by alike answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from delome.graph import Graph
from delome.learning import Learner
from delome.privacy.measure import Measure, area, hits_at
from delome.privacy.similarity import unit
from delome.privacy.subject import Audited

MOST_PAIRS = 4000
"""Linked nodes of a task that are asked about, and as many that are not linked."""
MOST_CONFIDENT = 1e6
"""Of a node that can be of one class only."""
PLANTED = 0.1
"""Share of members whose answers a planted leak gives away."""


@dataclass(frozen=True)
class Scores:
    """What an attacker scores members and others with; a leak scores members higher."""

    members: np.ndarray
    others: np.ndarray

    def measures(self, prefix: str = "membership") -> dict[str, Measure]:
        before = "" if prefix == "membership" else f"{prefix}_"
        found = {
            f"{prefix}_auc": area(self.members, self.others),
            f"{before}tpr_at_1pct_fpr": hits_at(self.members, self.others, 0.01),
            f"{before}tpr_at_0.1pct_fpr": hits_at(self.members, self.others, 0.001),
        }
        return {name: measure for name, measure in found.items() if measure is not None}

    def planted(self, rng: np.random.Generator) -> Scores:
        """The same if some members were given away."""
        members = self.members.copy()
        chosen = rng.choice(len(members), max(1, int(PLANTED * len(members))), replace=False)
        members[chosen] = max(members.max(initial=0), self.others.max(initial=0)) + 1
        return Scores(members, self.others)

    def noise(self, rng: np.random.Generator) -> Scores:
        """The same if membership decided nothing: members and others mixed."""
        mixed = rng.permutation(np.concatenate([self.members, self.others]))
        return Scores(mixed[: len(self.members)], mixed[len(self.members) :])


def confidence(learner: Learner, each: Audited) -> np.ndarray:
    """Score of the true class above the soft maximum of the others, for every node; -inf where its class is not known.

    For a softmax that is log p / (1 - p), without saturating.
    """
    found = np.full(each.graph.num_nodes, -np.inf)
    nodes = np.flatnonzero(each.labels >= 0)
    scores = learner.scores(each.graph, nodes, task=each.index if learner.setting == "til" else None).astype(np.float64)
    place = np.arange(len(nodes)), each.labels[nodes]
    own = scores[place]
    scores[place] = -np.inf
    found[nodes] = np.clip(own - logsumexp(scores, axis=1), -MOST_CONFIDENT, MOST_CONFIDENT)
    return found


def membership(learner: Learner, audited: Sequence[Audited]) -> Scores:
    """Confidence in the true class, of training nodes and of held-out ones."""
    each = [(confidence(learner, part), part) for part in audited]
    return Scores(
        np.concatenate([scores[part.train] for scores, part in each]),
        np.concatenate([scores[part.held_out] for scores, part in each]),
    )


def links(learner: Learner, audited: Sequence[Audited], rng: np.random.Generator) -> tuple[Scores, Scores]:
    """Likeness of answers for pairs of training nodes of one class that are linked, and that are not.

    The attacker knows features and asks about nodes without edges. The second scores are cosines of features alone:
    what is known without the model.
    """
    answers: list[list[np.ndarray]] = [[], []]
    known: list[list[np.ndarray]] = [[], []]
    for each in audited:
        pairs = _pairs(each, rng)
        if pairs is None:
            continue
        bare = Graph.edgeless(each.graph.features)
        scores = learner.predict_proba(bare, task=each.index if learner.setting == "til" else None)
        rows = unit(each.graph.features)
        for side, (first, second) in enumerate(pairs):
            answers[side].append(-np.abs(scores[first] - scores[second]).sum(axis=1))
            products = rows[first] * rows[second]
            known[side].append(np.asarray(products.sum(axis=1)).ravel())
    if not answers[0]:
        return (Scores(np.empty(0), np.empty(0)),) * 2
    asked, alone = ([np.concatenate(part) for part in both] for both in (answers, known))
    return Scores(*asked), Scores(*alone)


def _pairs(each: Audited, rng: np.random.Generator) -> list[tuple[np.ndarray, np.ndarray]] | None:
    """Pairs of training nodes of the same class with a link and without; none if there are not both."""
    trained = np.zeros(each.graph.num_nodes, dtype=bool)
    trained[each.train] = True
    edges = each.graph.adjacency.tocoo()
    good = trained[edges.row] & trained[edges.col] & (each.labels[edges.row] == each.labels[edges.col])
    good &= edges.row < edges.col
    linked = np.stack([edges.row[good], edges.col[good]])
    if linked.shape[1] == 0:
        return None
    linked = linked[:, rng.permutation(linked.shape[1])[:MOST_PAIRS]]
    first = rng.choice(each.train, 4 * linked.shape[1])
    second = rng.choice(each.train, 4 * linked.shape[1])
    apart = (each.labels[first] == each.labels[second]) & (first != second)
    apart &= ~np.asarray(each.graph.adjacency[first, second]).ravel().astype(bool)
    if not apart.any():
        return None
    return [(linked[0], linked[1]), (first[apart][:MOST_PAIRS], second[apart][:MOST_PAIRS])]
