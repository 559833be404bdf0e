"""What is audited: for each class the memory rows, the nodes it was trained on, and held-out nodes as controls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np
import scipy.sparse as sp

from delome.errors import ParameterError
from delome.graph import Graph
from delome.graph.sparse import Features, stack
from delome.learning import Learner
from delome.learning.replay import Replay
from delome.memories import Memory
from delome.privacy.similarity import nearest
from delome.privacy.sources import copied_from, sources_of
from delome.streams.tasks import Task

Space: TypeAlias = Literal["raw", "propagated"]
SPACES: tuple[Space, ...] = ("raw", "propagated")


@dataclass(frozen=True)
class Audited:
    """The nodes of a task (``index``, if it is known as one): which were trained on, and which were held out.

    ``labels`` are columns of the learner, -1 of other classes; ``nodes`` are numbers that a node keeps in other splits.
    """

    index: int | None
    graph: Graph
    train: np.ndarray
    held_out: np.ndarray
    labels: np.ndarray
    nodes: np.ndarray
    task: Task | None = None

    @classmethod
    def of_task(cls, learner: Learner, task: Task) -> Audited:
        held_out = np.concatenate([task.val, task.test])
        return cls(task.index, task.graph, task.train, held_out, _columns(learner, task.graph), task.nodes, task)

    @classmethod
    def of_graph(cls, learner: Learner, graph: Graph) -> Audited:
        """Of live data: what is inside the train mask was learned, and other labelled nodes were not."""
        labels, mask = _columns(learner, graph), graph.masks.get("train")
        if mask is None or not (mask & (labels >= 0)).any() or not (~mask & (labels >= 0)).any():
            raise ParameterError(
                "an audit compares nodes that were learned with nodes that were not: give a graph with a train_mask, "
                "of which labelled nodes lie inside and outside, or the folder of a run"
            )
        train, held_out = (np.flatnonzero(part & (labels >= 0)) for part in (mask, ~mask))
        return cls(learner.task_of(graph), graph, train, held_out, labels, np.arange(graph.num_nodes))


def _columns(learner: Learner, graph: Graph) -> np.ndarray:
    """Class columns of all nodes; -1 where the learner does not know the class."""
    found = np.full(graph.num_nodes, -1, dtype=np.int64)
    labels = graph.user_labels
    if labels is not None:
        known = np.isin(labels, learner.classes)
        found[known] = learner.known.columns_of(labels[known])
    return found


@dataclass(frozen=True)
class ClassRows:
    """Rows of one class in one space. ``sources`` are weights of training rows in memory rows, where they are known."""

    memory: Features
    train: Features
    held_out: Features
    sources: sp.csr_array | None = None

    def with_memory(self, memory: Features, sources: sp.csr_array | None = None) -> ClassRows:
        return replace(self, memory=memory, sources=sources)


def class_rows(learner: Learner, audited: Sequence[Audited], space: Space) -> Iterator[ClassRows]:
    """Rows of every class of which there is a memory, trained nodes and held-out nodes."""
    if not isinstance(learner, Replay):
        return
    hops = learner.backbone.hops
    for each in audited:
        graph = learner.read(each.graph)
        features = graph.features if space == "raw" else graph.propagate(hops)
        known = sources_of(learner, each.task) if each.task is not None else None
        memories = [memory for memory in learner.bank.memories if each.index in (None, memory.task)]
        for column in np.unique(each.labels[each.train]).tolist():
            parts = [part for memory in memories if (part := _rows_of(memory, column, space, hops)) is not None]
            held_out = each.held_out[each.labels[each.held_out] == column]
            if not parts or len(held_out) == 0:
                continue
            train = each.train[each.labels[each.train] == column]
            if known is not None:
                sources = known.get(column)
            else:
                kept = [part for memory in memories if (part := _rows_of(memory, column, "raw", hops)) is not None]
                sources = _copied(stack(kept), [graph.features[train], graph.propagate(hops)[train]])
            yield ClassRows(stack(parts), features[train], features[held_out], sources)


def _copied(kept: Features, spaces: Sequence[Features]) -> sp.csr_array | None:
    """Training nodes that rows as they are kept are copies of, in the space of most copies; none if no row is one.

    (Nodes without neighbours are the same in every space.)
    """
    found = max((copied_from(kept, rows, nearest(kept, rows).node) for rows in spaces), key=lambda each: int(each.nnz))
    return found if found.nnz else None


def _rows_of(memory: Memory, column: int, space: Space, hops: int) -> Features | None:
    """Rows of a class in a memory as the network would see them in a space; learned rows have no edges."""
    chosen = memory.rows[memory.labels == column]
    features = memory.graph.features if space == "raw" else memory.graph.propagate(hops)
    return features[chosen] if len(chosen) else None
