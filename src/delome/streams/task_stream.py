"""TaskStream: a graph whose classes arrive a few at a time."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import partial
from itertools import islice
from typing import Any, overload

import numpy as np

from delome.errors import StreamError, shown
from delome.graph import Graph
from delome.streams.splits import Split, split_of
from delome.streams.tasks import Task

KEEP_BELOW = 2**30
"""Bytes of a graph up to which the graphs of all its tasks stay in memory; of a larger one only the last asked for."""


class TaskStream(Sequence[Task]):
    """Cuts a labelled graph into tasks of ``classes_per_task`` classes.

    Classes come in label order, or in ``class_order``; they are renumbered 0, 1, … in that order and
    ``classes[column]`` is the original label. Classes below ``min_class_size`` nodes, and classes left over when the
    number of classes is no multiple of ``classes_per_task``, are in ``dropped``; so are those after the first so many
    ``tasks``, if only those are wanted.

    ``split`` says which nodes are trained, validated and tested on: ``"masks"`` (the graph's own; the default if it has
    any), ``"random"`` (60/20/20 of each class, drawn from ``split_seed`` alone, so that every method and every seed of
    a model sees the same) or three arrays of nodes. Nodes that are in no part only take part in propagation.

    Nodes whose label is unknown (-1) belong to no task. A task's graph is the induced subgraph of its classes, or,
    with ``inter_task_edges``, of all classes so far.

    >>> from delome import load_graph
    >>> stream = TaskStream(load_graph("digits"), classes_per_task=2)
    >>> len(stream), stream[0].classes, stream[0].graph
    (5, (0, 1), Graph(nodes=360, edges=3980, features=64, classes=2))
    """

    def __init__(
        self,
        graph: Graph,
        classes_per_task: int = 2,
        *,
        tasks: int | None = None,
        class_order: Sequence[int] | Sequence[str] | None = None,
        split: Split | None = None,
        split_seed: int = 0,
        inter_task_edges: bool = False,
        min_class_size: int = 3,
    ) -> None:
        if not isinstance(graph, Graph):
            raise StreamError(f"a task stream is cut from a Graph, not from {shown(graph)}")
        if graph.labels is None:
            raise StreamError("a task stream needs a graph with labels")
        classes_per_task = _at_least_one("classes_per_task", classes_per_task)
        min_class_size = _whole("min_class_size", min_class_size)
        split_seed = _whole("split_seed", split_seed)
        if min_class_size < 3:
            raise StreamError(
                f"min_class_size must be at least 3 (one node each to train, validate, test), not {min_class_size}"
            )
        if split_seed < 0:
            raise StreamError(f"split_seed must be at least 0, not {split_seed}")
        present, counts = np.unique(graph.labels[graph.labels >= 0], return_counts=True)
        if len(present) == 0:
            raise StreamError("a task stream needs labelled nodes, but every label of the graph is -1, unknown")
        size = dict(zip(present.tolist(), counts.tolist(), strict=True))
        order = _checked_order(graph, class_order, size)
        kept = [label for label in order if size[label] >= min_class_size]
        self.dropped = {label: f"only {size[label]} nodes" for label in order if size[label] < min_class_size}
        num_tasks = len(kept) // classes_per_task
        asked = num_tasks if tasks is None else min(num_tasks, _at_least_one("tasks", tasks))
        if num_tasks == 0:
            raise StreamError(
                f"cannot make a task of {classes_per_task} classes: "
                f"the graph has {len(kept)} classes with at least {min_class_size} nodes"
            )
        self.dropped |= dict.fromkeys(kept[num_tasks * classes_per_task :], "left over after the last full task")
        self.dropped |= dict.fromkeys(
            kept[asked * classes_per_task : num_tasks * classes_per_task], f"after the first {asked} tasks"
        )
        num_tasks, self.tasks = asked, tasks
        self.classes = tuple(kept)
        self.classes_per_task = classes_per_task
        self.class_order = None if class_order is None else [graph.user_label(label) for label in order]
        self.split_seed = split_seed
        self.inter_task_edges = inter_task_edges
        self.min_class_size = min_class_size
        self._source = graph
        self._split = split_of(graph, split, split_seed)
        members = _members(graph.labels, self.classes[: num_tasks * classes_per_task])
        self._parts = [self._split.parts(*each) for each in zip(self.classes, members, strict=False)]
        self._sha256 = ""
        self._graphs: dict[int, Graph] = {}
        self._labels = tuple(graph.user_label(label) for label in self.classes)
        self._tasks = [self._task(t, t if inter_task_edges else None) for t in range(num_tasks)]

    @property
    def graph(self) -> Graph:
        """The graph that the tasks are cut from."""
        return self._source

    @property
    def split_kind(self) -> str:
        """``random``, ``masks`` or ``given``."""
        return self._split.kind

    @property
    def num_classes(self) -> int:
        """Output columns of a model for this stream: all kept classes."""
        return len(self.classes)

    def describe(self) -> dict[str, Any]:
        """All that decides which nodes are learned and evaluated when: equal streams, and no others, share it."""
        graph = self._source
        self._sha256 = self._sha256 or graph.fingerprint()  # takes a while for a large graph
        return {
            "graph": {
                "sha256": self._sha256,
                "nodes": graph.num_nodes,
                "edges": graph.num_edges,
                "features": graph.num_features,
                "directions": "both" if graph.undirected else "as given",
                "weighted": graph.weighted,
            },
            "tasks": [list(task.class_labels) for task in self._tasks],
            "classes_per_task": self.classes_per_task,
            "min_class_size": self.min_class_size,
            "split": self._split.description,
            "inter_task_edges": self.inter_task_edges,
        }

    def fingerprint(self) -> str:
        """SHA-256 of the description."""
        return hashlib.sha256(json.dumps(self.describe(), sort_keys=True).encode()).hexdigest()

    def user_label(self, column: int) -> int | str:
        """Label of a class column as it was given."""
        return self._source.user_label(self.classes[column])

    def class_name(self, column: int) -> str:
        """Name of a class column: the graph's own, or the original label."""
        label = self.classes[column]
        return self._source.class_names[label] if self._source.class_names else str(label)

    def __len__(self) -> int:
        return len(self._tasks)

    def __repr__(self) -> str:
        edges = "with" if self.inter_task_edges else "without"
        tasks = f"{len(self)} tasks of {self.classes_per_task} classes"
        return f"TaskStream({self._source}, {tasks}, {edges} inter-task edges)"

    @overload
    def __getitem__(self, index: int) -> Task: ...

    @overload
    def __getitem__(self, index: slice) -> list[Task]: ...

    def __getitem__(self, index: int | slice) -> Task | list[Task]:
        return self._tasks[index]

    def seen(self, task: Task) -> list[Task]:
        """All tasks up to and including ``task``, as they are evaluated after it.

        With inter-task edges they all live in the graph that has grown so far.
        """
        if not self.inter_task_edges:
            return self._tasks[: task.index + 1]
        return [self._task(t, task.index) for t in range(task.index)] + [task]

    def _columns(self, task: int) -> range:
        return range(task * self.classes_per_task, (task + 1) * self.classes_per_task)

    def _task(self, index: int, grown_to: int | None) -> Task:
        """Task ``index`` in its own graph, or in the graph of all classes up to task ``grown_to``."""
        first = index if grown_to is None else 0
        last = index if grown_to is None else grown_to
        offset = 0
        nodes: list[np.ndarray] = []
        parts: tuple[list[np.ndarray], ...] = ([], [], [], [])
        for t in range(first, last + 1):
            for column in self._columns(t):
                for part, chosen in zip(parts, self._parts[column].in_order, strict=True):
                    nodes.append(chosen)
                    if t == index:
                        part.append(np.arange(offset, offset + len(chosen)))
                    offset += len(chosen)
        train, val, test, _ = (np.concatenate(part) for part in parts)
        new = index * self.classes_per_task
        return Task(
            index=index,
            class_labels=self._labels[new : new + self.classes_per_task],
            labels_before=self._labels[:new],
            num_classes=self.num_classes,
            nodes=np.concatenate(nodes),
            train=train,
            val=val,
            test=test,
            source=partial(self._graph_after, last),
            earlier=lambda: self.seen(self._tasks[index])[:-1],
        )

    def _graph_after(self, index: int) -> Graph:
        """Graph of task ``index``, cut when first asked for."""
        if index not in self._graphs:
            if self.inter_task_edges or self._source.nbytes > KEEP_BELOW:
                self._graphs.clear()  # the grown graph contains the earlier ones; a large one is cut again if need be
            self._graphs[index] = self._source.subgraph(self._tasks[index].nodes)
        return self._graphs[index]


def _whole(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not -(2**63) <= int(value) < 2**63:
        raise StreamError(f"{name} must be a whole number of at most 64 bits, not {shown(value)}")
    return int(value)


def _at_least_one(name: str, value: Any) -> int:
    if _whole(name, value) < 1:
        raise StreamError(f"{name} must be at least 1, not {value}")
    return int(value)


def _checked_order(graph: Graph, class_order: Sequence[int] | Sequence[str] | None, size: dict[int, int]) -> list[int]:
    if class_order is None:
        return sorted(size)
    try:
        labels = iter(class_order)
    except TypeError:
        raise StreamError(f"class_order must be a list of labels, not {shown(class_order)}") from None
    numbers: dict[Any, int] = {graph.user_label(label): label for label in size}
    # one more than there are classes is enough to find one that is absent or named twice
    wanted = list(islice(labels, len(size) + 1))
    if graph.labels_are_text:
        if absent := [label for label in wanted if label not in numbers]:
            raise StreamError(f"class_order names classes that the graph does not have: {shown(absent[:5])}")
        order = [numbers[label] for label in wanted]
    else:
        order = [_whole("a label in class_order", label) for label in wanted]
        if missing := sorted(set(order) - set(size)):
            raise StreamError(f"class_order names classes that the graph does not have: {missing[:5]}")
    if len(set(order)) != len(order):
        raise StreamError("class_order names a class twice")
    return order


def _members(labels: np.ndarray, classes: tuple[int, ...]) -> list[np.ndarray]:
    """The nodes of each class."""
    by_label = np.argsort(labels, kind="stable")
    starts = np.searchsorted(labels[by_label], classes)
    ends = np.searchsorted(labels[by_label], classes, side="right")
    return [by_label[start:end] for start, end in zip(starts, ends, strict=True)]
