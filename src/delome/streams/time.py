"""Time-incremental streams: nodes in the order of a timestamp, a period to a task, in a graph that grows."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated

import numpy as np

from delome.errors import ParameterError, StreamError, unknown
from delome.graph import Graph
from delome.parameters import Param
from delome.streams.grouped import OrderedStream
from delome.streams.kind import STREAMS, Cutting, StreamKind, listed

MOST_PERIODS = 10_000


@STREAMS.register("time")
class Time(StreamKind):
    """Tasks are periods of a node attribute such as ``node_year``; classes come back, and drift.

    Period k is ``start + k·period ≤ timestamp < start + (k + 1)·period``; what is earlier than ``start`` belongs to the
    first one. After a period, the nodes of the next one are asked about too (forward transfer).

    >>> from delome import Graph
    >>> graph = Graph([[0], [1]], np.ones((12, 1)), [0, 1] * 6, node_attributes={"node_year": [2001] * 6 + [2003] * 6})
    >>> stream = Time(period=2)(graph)
    >>> stream.names, [task.classes for task in stream]
    (['2001 to 2003', '2003 to 2005'], [(0, 1), (0, 1)])
    """

    column: Annotated[str, Param("node attribute that is the timestamp")] = "node_year"
    period: Annotated[float, Param("length of a period, in units of the timestamp", above=0)] = 1.0
    start: Annotated[float | None, Param("where the first period starts; none = the smallest timestamp")] = None
    bounds: Annotated[str | None, Param("where each later period starts, e.g. 2010+2014, in place of period")] = None

    usual_test_graph = "grown"
    summary = "nodes in order of a timestamp, a period to a task; classes come back and drift"

    def cut(self, graph: Graph, cutting: Cutting) -> OrderedStream:
        times = timestamps(graph, self.column)
        bounds = self._bounds(times)
        groups = np.searchsorted(bounds, times, side="right")
        first = float(times.min()) if self.start is None else self.start
        end = bounds[-1] + self.period if self.bounds is None and len(bounds) else float(times.max())
        edges = [f"{edge:g}" for edge in (first, *bounds)] + [f"{end:g}" if len(bounds) else "the end"]
        names = [f"{a} to {b}" for a, b in pairwise(edges)]
        return OrderedStream(graph, groups, names, cutting, {})

    def _bounds(self, times: np.ndarray) -> np.ndarray:
        """Where each period but the first starts."""
        if self.bounds is not None:
            if self.start is not None:
                raise StreamError("bounds says where periods start: leave out start")
            try:
                found = np.array([float(part) for part in listed("bounds", self.bounds)])
            except ValueError:
                raise ParameterError(f"bounds must be numbers such as 2010+2014, not '{self.bounds}'") from None
            if not np.isfinite(found).all() or (np.diff(found) <= 0).any():
                raise StreamError(f"bounds must be numbers in ascending order, not '{self.bounds}'")
            return found
        first, last = float(times.min()) if self.start is None else self.start, float(times.max())
        count = np.floor((last - first) / self.period) + 1
        if count < 1:
            raise StreamError(f"start {first:g} is after the last timestamp, {last:g}: choose an earlier one")
        if count > MOST_PERIODS:
            raise StreamError(
                f"period {self.period:g} makes {count:,.0f} tasks, and at most {MOST_PERIODS:,} are allowed"
            )
        return first + self.period * np.arange(1, int(count))


def timestamps(graph: Graph, column: str) -> np.ndarray:
    """A node attribute, all of it there."""
    if column not in graph.attributes:
        if not graph.attributes:
            raise StreamError(f"the graph has no node attribute '{column}': give it node_attributes={{'{column}': …}}")
        raise StreamError(unknown("node attribute", column, graph.attributes))
    values = graph.attributes[column].astype(np.float64)
    if missing := int((~np.isfinite(values)).sum()):
        raise StreamError(f"{missing} nodes have no {column}, NaN or infinite: leave them out, or give them one")
    return values
