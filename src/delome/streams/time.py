"""Time-incremental streams: nodes in the order of a timestamp, a period to a task, in a graph that grows."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import Annotated

import numpy as np

from delome.errors import ParameterError, StreamError
from delome.graph import Graph
from delome.parameters import Param
from delome.streams.grouped import SMALLEST, OrderedStream, attribute
from delome.streams.kind import STREAMS, Cutting, StreamKind, listed
from delome.streams.splits import split_of

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
    (['until 2003', 'from 2003'], [(0, 1), (0, 1)])
    """

    column: Annotated[str, Param("node attribute that is the timestamp")] = "node_year"
    period: Annotated[float, Param("length of a period, in units of the timestamp", above=0)] = 1.0
    start: Annotated[float | None, Param("where the first period starts; none = the smallest timestamp")] = None
    bounds: Annotated[str | None, Param("where each later period starts, e.g. 2010+2014, in place of period")] = None

    usual_test_graph = "grown"
    summary = "nodes in order of a timestamp, a period to a task; classes come back and drift"

    def cut(self, graph: Graph, cutting: Cutting) -> OrderedStream:
        times = attribute(graph, self.column)
        if times.dtype.kind == "U":
            raise StreamError(f"{self.column} is text: give every node a number that is its time")
        times = times.astype(np.float64)
        bounds = self._bounds(times)
        groups = np.searchsorted(bounds, times, side="right")
        drawn = split_of(graph, cutting.split, cutting.split_seed).kind == "random"
        return OrderedStream(graph, groups, _names(bounds), cutting, self._advice(graph, groups, bounds, drawn))

    def _advice(self, graph: Graph, groups: np.ndarray, bounds: np.ndarray, drawn: bool) -> str:
        """What to do if a period has too few nodes: a later start, if there is one that leaves enough in each (of a
        split that is ``drawn``: masks may lack a part anywhere)."""
        enough = "choose longer periods" if self.bounds is None else "choose other bounds"
        if self.bounds is not None or graph.labels is None or not drawn:
            return enough
        counts = np.zeros((len(bounds) + 1, int(graph.labels.max()) + 1), np.int64)
        known = graph.labels >= 0
        np.add.at(counts, (groups[known], graph.labels[known]), 1)
        learnable = (counts >= SMALLEST).sum(axis=1) >= 2
        merged = (counts.cumsum(axis=0) >= SMALLEST).sum(axis=1) >= 2
        # a start at the period after k puts the first k + 1 periods into one
        able = [k for k in range(1, len(bounds)) if merged[k] and learnable[k + 1 :].all()]
        return f"choose start={_written(bounds[able[0] - 1])}, or longer periods" if able else enough

    def _bounds(self, times: np.ndarray) -> np.ndarray:
        """Where each period but the first starts."""
        if self.bounds is not None:
            if self.start is not None or self.period != type(self).period:
                raise StreamError("bounds says where periods start: leave out start and period")
            try:
                found = np.array([float(part) for part in listed("bounds", self.bounds, "2010+2014")])
            except ValueError:
                raise ParameterError(f"bounds must be numbers such as 2010+2014, not '{self.bounds}'") from None
            if not np.isfinite(found).all() or (np.diff(found) <= 0).any():
                raise StreamError(f"bounds must be numbers in ascending order, not '{self.bounds}'")
            return found
        first, last = float(times.min()) if self.start is None else self.start, float(times.max())
        # in decimals: three periods of 0.1 end at 0.3, and not a little later, as they do in binary numbers
        start, length = _decimal(first), _decimal(self.period)
        count = (_decimal(last) - start) // length + 1
        if count < 1:
            raise StreamError(f"start {first:g} is after the last timestamp, {last:g}: choose an earlier one")
        if count > MOST_PERIODS:
            raise StreamError(
                f"period {self.period:g} makes {float(count):.3g} tasks, and at most {MOST_PERIODS:,} are allowed"
            )
        return np.array([float(start + length * k) for k in range(1, count)])


def _decimal(number: float) -> Fraction:
    """The number that is meant by its shortest digits."""
    return Fraction(repr(float(number)))


def _names(bounds: np.ndarray) -> list[str]:
    """What periods are called: the first holds all that is earlier, the last all that is later.

    >>> _names(np.array([2011.0, 2013.0]))
    ['until 2011', '2011 to 2013', 'from 2013']
    """
    edges = [_written(bound) for bound in bounds]
    if not edges:
        return ["all times"]
    return [f"until {edges[0]}", *(f"{a} to {b}" for a, b in pairwise(edges)), f"from {edges[-1]}"]


def _written(time: float) -> str:
    """A time with all the digits it has."""
    return str(int(time)) if float(time).is_integer() and abs(time) < 1e15 else repr(float(time))
