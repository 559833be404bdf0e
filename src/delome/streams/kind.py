"""What a kind of stream is: a value that cuts a graph into tasks; and how the command line writes it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
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

    classes_per_task: int = 2
    tasks: int | None = None
    class_order: Sequence[Any] | None = None
    split: Split | None = None
    split_seed: int = 0
    protocol: Protocol = field(default_factory=Protocol)


class StreamKind(Component, ABC):
    """A way in which a graph arrives.

    ``settings`` are those in which its tasks mean something, ``usual_test_graph`` that of its protocol if none is
    asked for.
    """

    settings: ClassVar[tuple[Setting, ...]] = ("cil", "til")
    usual_test_graph: ClassVar[str] = "cut"
    summary: ClassVar[str] = ""

    def __call__(self, graph: Graph, cutting: Cutting | None = None) -> CutStream:
        """The stream of a graph."""
        if not isinstance(graph, Graph):
            raise StreamError(f"a stream is cut from a Graph, not from {shown(graph)}")
        stream = self.cut(graph, Cutting(protocol=Protocol(self.usual_test_graph)) if cutting is None else cutting)
        stream.kind = written(self)
        return stream

    @abstractmethod
    def cut(self, graph: Graph, cutting: Cutting) -> CutStream:
        """The same, before it is told what it was cut by."""


def parse_kind(text: Any) -> StreamKind:
    """A kind of stream from ``name`` or ``name:parameter=value,…``."""
    if not isinstance(text, str):
        raise ParameterError(f"a stream is named by text such as 'classes:base=4,step=2', not by {shown(text)}")
    name, _, rest = text.partition(":")
    kind = STREAMS.find(name)
    return kind(**parse_assignments(kind, rest.split(",") if rest else [], f"stream {name}"))


def written(kind: StreamKind) -> str:
    """The shortest text that says which stream it is, the same for equal ones."""
    given = [
        f"{name}={_plain(getattr(kind, name))}"
        for name, parameter in parameters_of(type(kind)).items()
        if getattr(kind, name) != parameter.default
    ]
    return STREAMS.name_of(type(kind)) + (f":{','.join(given)}" if given else "")


def _plain(value: Any) -> str:
    return "none" if value is None else f"{value:.12g}" if isinstance(value, float) else str(value)


def listed(name: str, text: str) -> list[str]:
    """``"4+3+3"`` as its parts.

    >>> listed("sizes", "4+3+3")
    ['4', '3', '3']
    """
    parts = [part.strip() for part in text.split("+")]
    if not all(parts):
        raise StreamError(f"{name} must be a list such as 4+3+3, not '{text}'")
    return parts


def members_of(graph: Graph) -> dict[int, np.ndarray]:
    """The nodes of each class."""
    if graph.labels is None or not (graph.labels >= 0).any():
        raise StreamError("a stream needs a graph with labelled nodes")
    return {
        label: np.flatnonzero(graph.labels == label) for label in np.unique(graph.labels[graph.labels >= 0]).tolist()
    }
