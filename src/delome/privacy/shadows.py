"""The likelihood-ratio attack (Carlini et al., 2022): how a model that knew a node answers, and one that did not.

Shadow runs learn the same graph on other splits, so that every node was a member of some and not of others. With m₁ the
mean confidence in a node of runs that were trained on it, m₀ that of the others, and variances v₁, v₀ that all nodes
share, the score is log N(c; m₁, v₁) - log N(c; m₀, v₀) for the confidence c of the learner that is attacked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from delome.learning import Learner
from delome.privacy.model_audit import Scores, confidence
from delome.privacy.subject import Audited
from delome.streams.tasks import Task


@dataclass(frozen=True)
class Shadow:
    """Confidences of a shadow run in nodes, by their numbers in the graph, and which of them it was trained on."""

    nodes: np.ndarray
    confidence: np.ndarray
    member: np.ndarray


def shadow_of(learner: Learner, tasks: Sequence[Task]) -> Shadow:
    """What a shadow run answers after all its tasks."""
    parts = [Audited.of_task(learner, task) for task in tasks]
    member = [np.isin(np.arange(part.graph.num_nodes), part.train) for part in parts]
    return Shadow(
        np.concatenate([part.nodes for part in parts]),
        np.concatenate([confidence(learner, part) for part in parts]),
        np.concatenate(member),
    )


def likelihood_ratios(learner: Learner, audited: Sequence[Audited], shadows: Sequence[Shadow]) -> Scores:
    """Scores of the nodes that some shadow runs were trained on and others were not."""
    count = 1 + max(int(shadow.nodes.max()) for shadow in shadows)
    sums, squares, times = (np.zeros((2, count)) for _ in range(3))
    for shadow in shadows:
        good = np.isfinite(shadow.confidence)
        place = shadow.member[good].astype(int), shadow.nodes[good]
        np.add.at(sums, place, shadow.confidence[good])
        np.add.at(squares, place, shadow.confidence[good] ** 2)
        np.add.at(times, place, 1)
    means = sums / np.maximum(times, 1)
    spread = (squares - times * means**2).clip(min=0).sum(axis=1) / np.maximum((times - 1).clip(min=0).sum(axis=1), 1)
    spread = np.maximum(spread, 1e-6)
    found: list[list[np.ndarray]] = [[], []]
    for part in audited:
        own = confidence(learner, part)
        for side, chosen in enumerate((part.train, part.held_out)):
            found[side] += list(_ratios(own[chosen], part.nodes[chosen], means, spread, times))
    return Scores(*(np.concatenate(side) if side else np.empty(0) for side in found))


def _ratios(
    own: np.ndarray, nodes: np.ndarray, means: np.ndarray, spread: np.ndarray, times: np.ndarray
) -> Iterator[np.ndarray]:
    known = nodes < times.shape[1]
    known[known] &= (times[:, nodes[known]] > 0).all(axis=0)
    mean, own = means[:, nodes[known]], own[known]
    logs = -((own - mean) ** 2) / (2 * spread[:, None]) - np.log(spread)[:, None] / 2
    yield logs[1] - logs[0]
