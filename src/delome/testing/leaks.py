"""The leak report: what a method's accuracy owes to how it is asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from delome.graph import Graph, disjoint_union
from delome.learning import Learner
from delome.metrics import Score
from delome.streams.columns import Setting
from delome.streams.tasks import Task
from delome.testing.referee import EPOCHS
from delome.testing.subject import Subject

MEANINGS = {
    "together": "the test nodes of each task asked about together, in the graph of the task (cut)",
    "alone": "each node asked about by itself",
    "mixed": "nodes of all tasks asked about at once",
    "joined": "in the graph of all tasks, edges between them included (joined)",
    "inductive": "learned without test nodes and their edges",
}


@dataclass(frozen=True)
class Leaks:
    """Mean class-balanced accuracy over tasks after the last one, on a small stream whose classes overlap, asked in
    different ways. ``together`` and ``alone`` differ for a method that uses which nodes are asked about; the others are
    lower where a method leans on what the benchmark's cut test graphs tell."""

    together: float
    alone: float
    mixed: float | None
    """None where the task of a node is known: nodes of different tasks cannot be asked about at once."""
    joined: float
    inductive: float
    nodes: int
    """Test nodes of all tasks."""

    def rows(self) -> list[tuple[str, float]]:
        """How nodes were asked about, and the accuracy."""
        return [(how, value) for name, how in MEANINGS.items() if (value := getattr(self, name)) is not None]


def leaks_of(method: type[Learner], parameters: Mapping[str, Any] | None = None, setting: Setting = "cil") -> Leaks:
    """Measures a method, which learns the same three tasks of two classes twice: with and without test nodes."""
    subject = Subject(method, setting, parameters or {})
    cut, joined, inductive = (
        subject.overlapping(**protocol) for protocol in ({}, {"test_graph": "joined"}, {"inductive": True})
    )
    learner, other = (subject.learned(stream, epochs=EPOCHS) for stream in (cut, inductive))
    union, of_tasks = _union(list(cut))
    at_once = learner.predict(union, np.concatenate(of_tasks)) if setting == "cil" else None
    alone, mixed = [], []
    for task in cut:
        graph = task.graph
        labels = graph.user_labels
        assert labels is not None
        one_by_one = [learner.predict(graph, task.test[k : k + 1], task=task.index) for k in range(len(task.test))]
        alone.append(Score.of(np.concatenate(one_by_one), labels[task.test]).balanced)
        if at_once is not None:
            start = sum(len(nodes) for nodes in of_tasks[: task.index])
            mixed.append(Score.of(at_once[start : start + len(task.test)], labels[task.test]).balanced)
    return Leaks(
        together=_mean(learner.evaluate(cut)),
        alone=_mean(alone),
        mixed=_mean(mixed) if mixed else None,
        joined=_mean(learner.evaluate(joined.seen(joined[-1]))),
        inductive=_mean(other.evaluate(inductive)),
        nodes=sum(len(task.test) for task in cut),
    )


def _mean(values: list[float]) -> float:
    return float(np.mean(values))


def _union(tasks: list[Task]) -> tuple[Graph, list[np.ndarray]]:
    """The graphs of tasks side by side, and the test nodes of each."""
    graphs = [task.graph for task in tasks]
    starts = np.cumsum([0, *(graph.num_nodes for graph in graphs[:-1])])
    return disjoint_union(graphs).hidden(), [start + task.test for start, task in zip(starts, tasks, strict=True)]
