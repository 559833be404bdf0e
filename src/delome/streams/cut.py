"""CutStream: tasks that are portions of one graph, and the graphs in which they are learned and asked about."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, overload

import numpy as np

from delome.graph import Graph
from delome.randomness import generator
from delome.streams.columns import Label
from delome.streams.protocol import TEST_GRAPHS
from delome.streams.protocol import Protocol as EvaluationProtocol
from delome.streams.splits import Parts
from delome.streams.tasks import Task

if TYPE_CHECKING:
    from delome.streams.kind import StreamKind

KEEP_BELOW = 2**30
"""Bytes of a graph up to which the graphs of all its tasks stay in memory; of a larger one only the last asked for."""


class Described(Protocol):
    """A split that says what it is."""

    kind: str
    description: dict[str, Any]


@dataclass(frozen=True)
class Portion:
    """What a task is made of: its classes, nodes of the whole graph, and positions among these of each part.

    Nodes that are in no part only take part in propagation. No node is in two portions.
    """

    labels: tuple[Label, ...]
    nodes: np.ndarray
    train: np.ndarray
    val: np.ndarray
    test: np.ndarray

    @classmethod
    def of(cls, labels: Sequence[Label], parts: Sequence[Parts], beside: np.ndarray | None = None) -> Portion:
        """Class after class, in each the parts in their order; ``beside`` are nodes of no class of the task."""
        nodes: list[np.ndarray] = []
        places: tuple[list[np.ndarray], ...] = ([], [], [], [])
        offset = 0
        for each in parts:
            for place, chosen in zip(places, each.in_order, strict=True):
                nodes.append(chosen)
                place.append(np.arange(offset, offset + len(chosen)))
                offset += len(chosen)
        if beside is not None:
            nodes.append(beside)
        train, val, test, _ = (np.concatenate(place) for place in places)
        return cls(tuple(labels), np.concatenate(nodes), train, val, test)


class CutStream(Sequence[Task]):
    """Tasks of one graph, learned and asked about as a `Protocol` says.

    Nodes are numbered at random in every graph that is cut: else the number of a node would tell its class, its task,
    or whether it is tested on.
    """

    kind: str = "classes"
    """How it was cut, as the command line writes it."""

    made_by: StreamKind | None = None
    """The value that cut it, if one did."""

    names: Sequence[str] = ()
    """What its tasks are called, if they are not just numbered."""

    def __init__(
        self,
        graph: Graph,
        portions: Sequence[Portion],
        num_classes: int,
        split: Described,
        protocol: EvaluationProtocol,
        dropped: dict[Any, str],
    ) -> None:
        self.dropped = dropped
        self.protocol = protocol
        self._num_classes = num_classes
        self._source = graph
        self._split = split
        self._portions = list(portions)
        self._starts = np.cumsum([0, *(len(portion.nodes) for portion in portions)])
        known: dict[Label, None] = {}
        self._before: list[tuple[Label, ...]] = []
        for portion in portions:
            self._before.append(tuple(known))
            known |= dict.fromkeys(portion.labels)
        self._known = tuple(known)
        self._sha256 = ""
        self._ranks = generator(0, "numbers of nodes").permutation(graph.num_nodes)
        self._last_numbers: tuple[tuple[int, int, bool], np.ndarray, np.ndarray] | None = None
        self._graphs: dict[tuple[int, int, bool], Graph] = {}
        self._tasks = [self._task(t, 0 if protocol.grows else t, t) for t in range(len(portions))]

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
        """Output columns of a model for this stream."""
        return self._num_classes

    @property
    def test_graph(self) -> str:
        return self.protocol.test_graph

    @property
    def inductive(self) -> bool:
        return self.protocol.inductive

    @property
    def inter_task_edges(self) -> bool:
        """Whether tasks are learned in the graph of everything seen so far."""
        return self.protocol.grows

    def class_name(self, column: int) -> str:
        """Name of a class column: the graph's own, or the original label."""
        label, names = self._known[column], self._source.class_names
        return names[label] if names and isinstance(label, int) else str(label)

    def details(self) -> dict[str, Any]:
        """What a kind of stream adds to its description."""
        return {"stream": self.kind}

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
            **self.details(),
            "split": self._split.description,
            **self.protocol.describe(),
        }

    def fingerprint(self) -> str:
        """SHA-256 of the description."""
        return hashlib.sha256(json.dumps(self.describe(), sort_keys=True).encode()).hexdigest()

    def portions_sha256(self) -> str:
        """SHA-256 of which nodes come when, in which part."""
        digest = hashlib.sha256()
        for portion in self._portions:
            for array in (portion.nodes, portion.train, portion.val, portion.test):
                digest.update(np.ascontiguousarray(array, dtype=np.int64).tobytes() + b"|")
        return digest.hexdigest()

    def __len__(self) -> int:
        return len(self._tasks)

    def __repr__(self) -> str:
        edges = TEST_GRAPHS[self.protocol.test_graph]
        return f"{type(self).__name__}({self._source}, {len(self)} tasks, {edges})"

    @overload
    def __getitem__(self, index: int) -> Task: ...

    @overload
    def __getitem__(self, index: slice) -> list[Task]: ...

    def __getitem__(self, index: int | slice) -> Task | list[Task]:
        return self._tasks[index]

    def seen(self, task: Task) -> list[Task]:
        """All tasks up to and including ``task``, as they are evaluated after it: each in its own graph, or all in the
        graph of everything seen so far."""
        if self.protocol.test_graph == "cut":
            return self._tasks[: task.index + 1]
        joined = self.protocol.test_graph == "joined"
        earlier = [self._task(t, 0, task.index) for t in range(task.index + joined)]
        return earlier if joined else [*earlier, task]

    def _learned(self, index: int) -> list[Task]:
        """The tasks before one, as they can be learned with it."""
        if not self.protocol.grows:
            return self._tasks[:index]
        return [self._task(t, 0, index) for t in range(index)]

    def _task(self, index: int, first: int, last: int) -> Task:
        """Task ``index`` in the graph of the portions from ``first`` to ``last``."""
        portion, offset = self._portions[index], int(self._starts[index] - self._starts[first])
        nodes, numbers = self._numbered(first, last)
        own = numbers[offset : offset + len(portion.nodes)]
        return Task(
            index=index,
            class_labels=portion.labels,
            labels_before=self._before[index],
            num_classes=self.num_classes,
            nodes=nodes,
            train=np.sort(own[portion.train]),
            val=np.sort(own[portion.val]),
            test=np.sort(own[portion.test]),
            source=partial(self._graph, first, last),
            earlier=partial(self._learned, index),
            made_by=partial(getattr, self, "made_by"),
            visible=partial(self._visible, index, first, last) if self.protocol.inductive else None,
        )

    def _numbered(self, first: int, last: int, learning: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Nodes of the whole graph that are in the graph of some portions, while learning without test nodes, by their
        numbers in it; and these numbers, in the order of the portions."""
        key = first, last, learning
        if self._last_numbers is None or self._last_numbers[0] != key:
            portions = self._portions[first : last + 1]
            inside = np.concatenate([np.delete(each.nodes, each.test) if learning else each.nodes for each in portions])
            order = np.argsort(self._ranks[inside])
            numbers = np.empty_like(order)
            numbers[order] = np.arange(len(order))
            self._last_numbers = key, inside[order], numbers
        return self._last_numbers[1:]

    def _graph(self, first: int, last: int, learning: bool = False) -> Graph:
        """The graph of some portions, cut when first asked for."""
        key = first, last, learning
        if key not in self._graphs:
            if self.protocol.grows or self._source.nbytes > KEEP_BELOW:
                self._graphs.clear()  # a grown graph contains the earlier ones; a large one is cut again if need be
            elif first < last:
                self._graphs = {known: graph for known, graph in self._graphs.items() if known[0] == known[1]}
            self._graphs[key] = self._source.subgraph(self._numbered(*key)[0])
        return self._graphs[key]

    def _visible(self, index: int, first: int, last: int) -> tuple[Graph, np.ndarray]:
        """What is seen while learning if test nodes are not: the graph without them, and the training nodes in it."""
        portion = self._portions[index]
        before = sum(len(each.nodes) - len(each.test) for each in self._portions[first:index])
        kept = np.delete(np.arange(len(portion.nodes)), portion.test)
        own = self._numbered(first, last, learning=True)[1][before : before + len(kept)]
        return self._graph(first, last, learning=True), np.sort(own[np.searchsorted(kept, portion.train)])
