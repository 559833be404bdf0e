"""Streams whose tasks are groups of nodes, by time or by domain: every group brings classes that others have too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from delome.errors import StreamError, unknown
from delome.graph import Graph
from delome.printable import counted
from delome.streams.columns import Label
from delome.streams.cut import CutStream, Portion
from delome.streams.kind import Cutting, members_of
from delome.streams.splits import GivenSplit, Parts, RandomSplit, split_of
from delome.streams.tasks import Task

SMALLEST = 3
"""Nodes of a class in a group, of which one each is trained, validated and tested on."""


class GroupedStream(CutStream):
    """Tasks are groups of nodes. Of a class with fewer than three nodes in a group, or without nodes of some part of a
    given split, these only take part in propagation, like nodes whose label is unknown. A random split is drawn for
    each class in each group."""

    def __init__(self, graph: Graph, groups: np.ndarray, names: Sequence[str], cutting: Cutting, advice: str) -> None:
        """``advice`` is for whom a group has too few nodes."""
        if cutting.class_order is not None:
            raise StreamError("class_order is for streams whose tasks are classes: leave it out")
        members = members_of(graph)
        assert graph.labels is not None
        split = split_of(graph, cutting.split, cutting.split_seed)
        wanted = range(len(names) if cutting.tasks is None else min(cutting.tasks, len(names)))
        portions = []
        for group in wanted:
            try:
                portions.append(_portion(graph, members, groups, group, split))
            except StreamError as error:
                raise StreamError(f"{names[group]} {error}: {advice}") from None
        labels: dict[Label, None] = {}
        for portion in portions:
            labels |= dict.fromkeys(portion.labels)
        lost = [label for label in members if graph.user_label(label) not in labels]
        where = "each group" if len(portions) == len(names) else f"the first {counted(len(portions), 'group')}"
        dropped = dict.fromkeys(lost, f"too few nodes in {where}")
        self.names = list(names)[: len(portions)]
        self.tasks, self.class_order, self.split_seed = cutting.tasks, None, cutting.split_seed
        self.classes_per_task = cutting.classes_per_task
        super().__init__(graph, portions, len(labels), split, cutting.protocol, dropped)

    def details(self) -> dict[str, Any]:
        return {"stream": self.kind, "sha256": self.portions_sha256()}


class OrderedStream(GroupedStream):
    """Groups in an order that means something: after each, the next one is asked about too."""

    def ahead(self, task: Task) -> list[Task]:
        """The task after ``task`` as it is asked about before it is learned: those of its test nodes whose class is
        known by then. None if there is no such task or node."""
        index = task.index + 1
        if index >= len(self):
            return []
        following = self._task(index, index if self.protocol.test_graph == "cut" else 0, index)
        labels = following.graph.user_labels
        assert labels is not None
        for split in ("val", "test"):
            nodes = getattr(following, split)
            setattr(following, split, nodes[np.isin(labels[nodes], np.array(following.labels_before))])
        return [following] if len(following.test) and len(following.val) else []


def attribute(graph: Graph, column: str) -> np.ndarray:
    """A node attribute, all of it there."""
    if column not in graph.attributes:
        if not graph.attributes:
            raise StreamError(f"the graph has no node attribute '{column}': give it node_attributes={{'{column}': …}}")
        raise StreamError(unknown("node attribute", column, graph.attributes))
    values = graph.attributes[column]
    is_text = values.dtype.kind == "U"
    if missing := int((values == "").sum() if is_text else (~np.isfinite(values)).sum()):
        raise StreamError(
            f"the {column} of {counted(missing, 'node')} is {'empty' if is_text else 'NaN or infinite'}: "
            "leave out such nodes, or give them a value"
        )
    return values


def _portion(
    graph: Graph,
    members: dict[int, np.ndarray],
    groups: np.ndarray,
    group: int,
    split: RandomSplit | GivenSplit,
) -> Portion:
    inside = np.flatnonzero(groups == group)
    if not len(inside):
        raise StreamError("has no nodes")
    classes: list[int] = []
    parts: list[Parts] = []
    for label, nodes in members.items():
        own = nodes[groups[nodes] == group]
        if len(own) >= SMALLEST and (found := split.parts_of_group(label, own, group)) is not None:
            classes.append(label)
            parts.append(found)
    if len(classes) < 2:
        have = "class has" if len(classes) == 1 else "classes have"
        raise StreamError(f"has too few nodes to learn: {len(classes)} {have} nodes of every part, and 2 are needed")
    learned = np.concatenate([np.concatenate(each.in_order) for each in parts])
    return Portion.of([graph.user_label(c) for c in classes], parts, beside=np.setdiff1d(inside, learned))
