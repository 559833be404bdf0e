"""Canaries: odd nodes that are planted before learning, half of them to be trained on, half of them held out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from delome.errors import ParameterError
from delome.graph.sparse import Features
from delome.learning import Learner
from delome.privacy.model_audit import Scores, membership
from delome.privacy.rows_audit import evidence
from delome.privacy.subject import SPACES, Audited, class_rows
from delome.streams.tasks import Task


def with_canaries(
    tasks: Sequence[Task], count: int, rng: np.random.Generator
) -> list[tuple[Task, np.ndarray, np.ndarray]]:
    """The tasks, in which ``count`` training nodes have become odd (their features stand in random columns) and as many
    odd ones are trained on no more; of each task the numbers of the former and of the latter."""
    made = []
    each = -(-count // len(tasks))
    for task in tasks:
        few = min(each, (len(task.train) - len(task.classes)) // 4)
        chosen = rng.choice(task.train, 2 * max(few, 0), replace=False)
        trained, held_out = np.split(chosen, 2)
        kept = np.setdiff1d(task.train, held_out)
        graph = task.graph.with_features(_odd(task.graph.features, chosen, rng))
        labels = graph.user_labels
        assert labels is not None
        if len(np.unique(labels[kept])) == len(task.classes):
            changed = replace(task, train=kept, source=lambda graph=graph: graph, _prepared={})  # type: ignore[misc]
            made.append((changed, trained, held_out))
        else:
            made.append((task, chosen[:0], chosen[:0]))
    if not any(len(trained) for _, trained, _ in made):
        raise ParameterError("the tasks have too few training nodes for canaries: leave --canaries out")
    return made


def _odd(features: Features, nodes: np.ndarray, rng: np.random.Generator) -> Features:
    """Features of which some rows have their numbers in other columns."""
    if isinstance(features, np.ndarray):
        found = features.copy()
        found[nodes] = rng.permuted(found[nodes], axis=1)
        return found
    changed = features.tolil()
    for node in nodes:
        row = features[[node]]
        values = np.zeros(features.shape[1], dtype=features.dtype)
        values[rng.choice(features.shape[1], row.nnz, replace=False)] = row.data
        changed[node] = values
    return sp.csr_array(changed.tocsr())


def canary_scores(
    learner: Learner, planted: Sequence[tuple[Task, np.ndarray, np.ndarray]], rng: np.random.Generator
) -> dict[str, Scores]:
    """How a learner of these tasks tells canaries that it was trained on from the others: by its memory, by answers."""
    audited = [
        replace(Audited.of_task(learner, task), train=trained, held_out=held_out, task=None)
        for task, trained, held_out in planted
        if len(trained)
    ]
    found = {"canary": membership(learner, audited)}
    for space in SPACES:
        parts = [evidence(rows, rng) for rows in class_rows(learner, audited, space)]
        if parts:
            found[f"canary_{space}"] = Scores(
                np.concatenate([part.members for part in parts]), np.concatenate([part.others for part in parts])
            )
    return found
