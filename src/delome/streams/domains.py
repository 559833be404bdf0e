"""Domain-incremental streams: the same classes, from one domain after the other."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from delome.graph import Graph
from delome.graph.union import DOMAIN
from delome.parameters import Param
from delome.streams.grouped import GroupedStream, attribute
from delome.streams.kind import STREAMS, Cutting, StreamKind


@STREAMS.register("domains")
class Domains(StreamKind):
    """A task for each value of a node attribute, in ascending order: a community, a source, a country.

    Several graphs are the domains of their union, ``Domains()(disjoint_union(graphs))``.

    >>> from delome import Graph
    >>> graph = Graph([[0], [1]], np.ones((12, 1)), [0, 1] * 6, node_attributes={"node_domain": [4] * 6 + [2] * 6})
    >>> stream = Domains()(graph)
    >>> stream.names, sorted(stream[0].nodes.tolist())
    (['node_domain 2', 'node_domain 4'], [6, 7, 8, 9, 10, 11])
    """

    column: Annotated[str, Param("node attribute that is the domain, numbers or text")] = DOMAIN

    summary = "the same classes from one domain (a value of a node attribute) after the other"

    def cut(self, graph: Graph, cutting: Cutting) -> GroupedStream:
        values, groups = np.unique(attribute(graph, self.column), return_inverse=True)
        advice = "leave out its nodes, or give them another value"
        return GroupedStream(graph, groups, [f"{self.column} {value}" for value in values.tolist()], cutting, advice)
