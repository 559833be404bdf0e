"""A task, what a learner sees of it, and what every stream of tasks can do."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from delome.errors import PastDataError
from delome.graph import Graph
from delome.streams.columns import Label, columns_of

if TYPE_CHECKING:
    from delome.streams.kind import StreamKind

Read: TypeAlias = Callable[[Graph], Graph]

_learning: ContextVar[str | None] = ContextVar("learning", default=None)


@contextmanager
def learning(learner: str) -> Iterator[None]:
    """While this block runs, tasks of a stream are closed: a learner has its `Observation` and nothing else."""
    token = _learning.set(learner)
    try:
        yield
    finally:
        _learning.reset(token)


class _GoneGraph(Graph):
    """What is left of a graph whose task is over."""

    def __getattribute__(self, name: str) -> object:
        raise PastDataError(
            "the graph of an earlier task is gone: a learner that looks back must declare needs_past = True"
        )


@dataclass
class Observation:
    """What a learner sees of a task: the graph without labels, the training nodes and their classes.

    It can be read while the learner observes it. A learner that keeps it to look back later gets an error,
    and so does one that asks for the ``past`` without having declared ``needs_past``.
    """

    index: int
    classes: tuple[int, ...]
    num_classes: int
    train: np.ndarray
    labels: np.ndarray
    num_features: int
    """Features of the graph as it was given, of which ``graph`` may have fewer."""
    _graph: Graph = field(repr=False)
    _past: Callable[[], list[Observation]] | None = field(default=None, repr=False)
    _open: bool = field(default=True, repr=False)
    _issued: list[Observation] = field(default_factory=list, repr=False)

    @property
    def graph(self) -> Graph:
        if not self._open:
            raise PastDataError(
                f"the data of task {self.index} is gone: a learner that looks back must declare needs_past = True"
            )
        return self._graph

    def past(self) -> list[Observation]:
        """Observations of all earlier tasks, for a learner that declared ``needs_past``."""
        if self._past is None:
            raise PastDataError(
                f"earlier tasks cannot be read while learning task {self.index}: declare needs_past = True, "
                "and hand in tasks of a TaskStream"
            )
        issued = self._past()
        self._issued += issued
        return issued

    def close(self) -> None:
        """Ends the learner's access, also through a graph it kept."""
        self._open = False
        self._past = None
        self._graph.__class__ = _GoneGraph
        self.train = self.labels = np.empty(0, dtype=np.int64)
        for past in self._issued:
            past.close()


@dataclass(eq=False)
class Task:
    """One task of a stream: its graph, its classes, and local node ids of the split.

    Classes are the user's labels; those of earlier tasks, in the order in which they first came, are ``labels_before``,
    and a class may come again. ``num_classes`` is how many there will be in the whole stream, and ``nodes`` are the ids
    that the nodes of the task's graph have in the graph it was cut from.
    """

    index: int
    class_labels: tuple[Label, ...]
    labels_before: tuple[Label, ...] = field(repr=False)
    num_classes: int = field(repr=False)
    nodes: np.ndarray = field(repr=False)
    train: np.ndarray = field(repr=False)
    val: np.ndarray = field(repr=False)
    test: np.ndarray = field(repr=False)
    source: Callable[[], Graph] = field(repr=False)
    """Gives the task's graph, labels and all; it is asked for anew whenever the graph is needed."""
    earlier: Callable[[], list[Task]] = field(repr=False)
    """Gives the tasks before this one."""
    visible: Callable[[], tuple[Graph, np.ndarray]] | None = field(default=None, repr=False)
    """Gives the graph that a learner sees, and the training nodes in it, if that is not the task's graph."""
    made_by: Callable[[], StreamKind | None] | None = field(default=None, repr=False)
    """Gives the kind of stream that it is a task of, if it is known."""
    _prepared: dict[Any, tuple[Any, np.ndarray]] = field(default_factory=dict, repr=False)

    @property
    def known_labels(self) -> tuple[Label, ...]:
        """Labels of all classes so far, in the order of their columns."""
        return tuple(dict.fromkeys([*self.labels_before, *self.class_labels]))

    @property
    def classes(self) -> tuple[int, ...]:
        """Columns of the task's classes."""
        return tuple(self.known_labels.index(label) for label in self.class_labels)

    @property
    def graph(self) -> Graph:
        """The task's graph with the original labels; closed to a learner that is learning."""
        self._refuse_learners()
        return self.source()

    def prepared(
        self, split: str, form: Hashable, prepare: Callable[[Graph, np.ndarray], Any]
    ) -> tuple[Any, np.ndarray]:
        """What ``prepare`` makes of the nodes of a split, and the user's labels; kept for each ``form`` but None."""
        if (found := self._prepared.get((split, form))) is not None:
            return found
        nodes, graph = getattr(self, split), self.graph
        labels = graph.user_labels
        assert labels is not None
        made = prepare(graph, nodes), labels[nodes]
        if form is not None:
            self._prepared[split, form] = made
        return made

    def _refuse_learners(self) -> None:
        if (learner := _learning.get()) is not None:
            raise PastDataError(
                f"{learner} read the graph of task {self.index} through the stream while learning: "
                "a learner may only read the observation it is given"
            )

    def observation(self, with_past: bool = False, read: Read = lambda graph: graph) -> Observation:
        """The task as a learner sees it, which may ``read`` graphs in a way of its own: no labels but those of training
        nodes."""
        self._refuse_learners()
        return self._observation(with_past, read)

    def _observation(self, with_past: bool, read: Read) -> Observation:
        graph, train = (self.source(), self.train) if self.visible is None else self.visible()
        labels = graph.user_labels
        assert labels is not None

        def past() -> list[Observation]:
            return [task._observation(with_past=False, read=read) for task in self.earlier()]

        return Observation(
            index=self.index,
            classes=self.classes,
            num_classes=self.num_classes,
            train=train,
            labels=columns_of(self.known_labels, labels[train]),
            num_features=graph.num_features,
            _graph=read(graph).hidden(),
            _past=past if with_past else None,
        )


class Stream(Protocol):
    """Tasks in the order they come, and what is evaluated after each of them.

    Whatever has these methods can be learned and run: a learner sees one task at a time, and never the stream.
    """

    @property
    def dropped(self) -> dict[Any, str]:
        """Classes that are in no task, and why."""
        ...

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Task]: ...

    def seen(self, task: Task) -> list[Task]:
        """The tasks to evaluate after ``task``: all up to and including it."""
        ...

    def describe(self) -> dict[str, Any]:
        """All that decides which nodes are learned and evaluated when, as plain values: equal streams, and no others,
        share it. ``graph`` and ``split`` are printed with every result."""
        ...
