"""Streams whose tasks are groups of nodes, by time or by domain: every group brings classes that others have too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from delome.errors import StreamError
from delome.graph import Graph
from delome.streams.columns import Label
from delome.streams.cut import CutStream, Portion
from delome.streams.kind import Cutting, members_of
from delome.streams.splits import GivenSplit, Parts, RandomSplit, split_of
from delome.streams.tasks import Task

SMALLEST = 3
"""Nodes of a class in a group, of which one each is trained, validated and tested on."""


class GroupedStream(CutStream):
    """Tasks are groups of nodes. Of a class with fewer than three nodes in a group these only take part in propagation,
    like nodes whose label is unknown. The split is drawn for each class in each group."""

    def __init__(
        self, graph: Graph, groups: np.ndarray, names: Sequence[str], cutting: Cutting, dropped: dict[Any, str]
    ) -> None:
        if cutting.class_order is not None:
            raise StreamError("class_order is for streams whose tasks are classes: leave it out")
        members = members_of(graph)
        assert graph.labels is not None
        split = split_of(graph, cutting.split, cutting.split_seed)
        wanted = range(len(names) if cutting.tasks is None else min(cutting.tasks, len(names)))
        portions = [_portion(graph, members, groups, group, names[group], split) for group in wanted]
        labels: dict[Label, None] = {}
        for portion in portions:
            labels |= dict.fromkeys(portion.labels)
        lost = [label for label in members if graph.user_label(label) not in labels]
        dropped = dropped | dict.fromkeys(lost, f"fewer than {SMALLEST} nodes in each group")
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


def _portion(
    graph: Graph,
    members: dict[int, np.ndarray],
    groups: np.ndarray,
    group: int,
    name: str,
    split: RandomSplit | GivenSplit,
) -> Portion:
    inside = np.flatnonzero(groups == group)
    if not len(inside):
        raise StreamError(f"there are no nodes in {name}: choose longer periods, or a later start")
    classes: list[int] = []
    parts: list[Parts] = []
    for label, nodes in members.items():
        own = nodes[groups[nodes] == group]
        if len(own) >= SMALLEST and (found := split.parts_of_group(label, own, group)) is not None:
            classes.append(label)
            parts.append(found)
    if len(classes) < 2:
        raise StreamError(
            f"{name} has {len(classes)} classes with at least {SMALLEST} nodes, and at least 2 are needed: "
            "choose longer periods, or a later start"
        )
    learned = np.concatenate([np.concatenate(each.in_order) for each in parts])
    return Portion.of([graph.user_label(c) for c in classes], parts, beside=np.setdiff1d(inside, learned))
