"""What a kind of stream is: a value that cuts a graph into tasks; and how the command line writes it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from delome.errors import ParameterError, StreamError, shown
from delome.graph import Graph
from delome.parameters import Component, parameters_of, parse_assignments
from delome.registry import Registry
from delome.streams.columns import Setting
from delome.streams.cut import CutStream
from delome.streams.protocol import Protocol
from delome.streams.splits import Split

STREAMS: Registry[type[StreamKind]] = Registry("stream", "streams", lambda: StreamKind)


@dataclass(frozen=True)
class Cutting:
    """What every kind of stream is told beside its own parameters."""

    protocol: Protocol
    classes_per_task: int
    tasks: int | None
    class_order: Sequence[Any] | None
    split: Split | None
    split_seed: int


class StreamKind(Component, ABC):
    """A way in which a graph arrives.

    ``settings`` are those in which its tasks mean something, ``usual_test_graph`` that of its protocol if none is
    asked for.
    """

    settings: ClassVar[tuple[Setting, ...]] = ("cil", "til")
    usual_test_graph: ClassVar[str] = "cut"
    summary: ClassVar[str] = ""

    def __post_init__(self) -> None:
        """Lists may be given as such: ``sizes=[4, 3, 3]`` is ``sizes="4+3+3"``."""
        for name in parameters_of(type(self)):
            if isinstance(value := getattr(self, name), list | tuple | np.ndarray):
                object.__setattr__(self, name, "+".join(map(str, value)))
        super().__post_init__()

    def __call__(
        self,
        graph: Graph,
        protocol: Protocol | None = None,
        *,
        classes_per_task: int = 2,
        tasks: int | None = None,
        class_order: Sequence[Any] | None = None,
        split: Split | None = None,
        split_seed: int = 0,
    ) -> CutStream:
        """The stream of a graph, or its first so many ``tasks``; the rest is explained at `TaskStream`."""
        if not isinstance(graph, Graph):
            raise StreamError(f"a stream is cut from a Graph, not from {shown(graph)}")
        protocol = Protocol(self.usual_test_graph) if protocol is None else protocol
        if not isinstance(protocol, Protocol):
            raise StreamError(f"a protocol is a Protocol, e.g. Protocol('joined'), not {shown(protocol)}")
        stream = self.cut(graph, Cutting(protocol, classes_per_task, tasks, class_order, split, split_seed))
        stream.kind, stream.made_by = written(self), self
        return stream

    @property
    def uses_classes_per_task(self) -> bool:
        """Whether its tasks are as large as ``classes_per_task`` says."""
        return False

    @abstractmethod
    def cut(self, graph: Graph, cutting: Cutting) -> CutStream:
        """The same, before it is told what it was cut by."""


def parse_kind(text: Any) -> StreamKind:
    """A kind of stream from ``name`` or ``name:parameter=value,…``."""
    if not isinstance(text, str):
        raise ParameterError(f"a stream is named by text such as 'classes:base=4,step=2', not by {shown(text)}")
    name, _, rest = text.partition(":")
    if name.isdecimal():
        raise ParameterError(f"there is no stream '{name}': lists have a + between them, as in classes:sizes=4+3+3")
    kind = STREAMS.find(name)
    given = rest.split(",") if rest else []
    if empty := [part for part in given if part.endswith("=")]:
        raise ParameterError(f"'{empty[0]}' of stream {name} has no value: give it one, or leave it out")
    names = [part.partition("=")[0].strip() for part in given]
    if twice := [each for number, each in enumerate(names) if each in names[:number]]:
        raise ParameterError(f"{twice[0]} of stream {name} is given twice: give it once")
    return kind(**parse_assignments(kind, given, f"stream {name}"))


def written(kind: StreamKind) -> str:
    """The shortest text that says which stream it is, the same for equal ones."""
    given = [
        f"{name}={_plain(getattr(kind, name))}"
        for name, parameter in parameters_of(type(kind)).items()
        if getattr(kind, name) != parameter.default
    ]
    return STREAMS.name_of(type(kind)) + (f":{','.join(given)}" if given else "")


def _plain(value: Any) -> str:
    if not isinstance(value, float):
        return "none" if value is None else str(value)
    return short if float(short := f"{value:.12g}") == value else repr(value)


def listed(name: str, text: str, example: str) -> list[str]:
    """``"4+3+3"`` as its parts; the ``example`` is for whom wrote something else.

    >>> listed("sizes", "4+3+3", "2+2")
    ['4', '3', '3']
    """
    parts = [part.strip() for part in text.split("+")]
    if not all(parts):
        raise StreamError(f"{name} must be a list such as {example}, not '{text}'")
    return parts


def members_of(graph: Graph) -> dict[int, np.ndarray]:
    """The nodes of each class."""
    if graph.labels is None or not (graph.labels >= 0).any():
        raise StreamError("a stream needs a graph with labelled nodes")
    return {
        label: np.flatnonzero(graph.labels == label) for label in np.unique(graph.labels[graph.labels >= 0]).tolist()
    }
