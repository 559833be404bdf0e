"""What a learner keeps for the sake of old tasks: as measured, and as formulas."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from delome.streams.tasks import Observation


@dataclass(frozen=True)
class Footprint:
    """Rows, numbers and bytes kept for old tasks, besides the network itself."""

    rows: int = 0
    floats: int = 0
    bytes: int = 0

    @classmethod
    def of_graphs(cls, observations: Sequence[Observation]) -> Footprint:
        """Nodes, feature values and bytes of the graphs of observations, a shared graph counted once."""
        graphs = {id(observation.graph.features): observation.graph for observation in observations}.values()
        return cls(
            sum(graph.num_nodes for graph in graphs),
            sum(graph.features.size for graph in graphs),
            sum(graph.nbytes for graph in graphs),
        )


@dataclass(frozen=True)
class FootprintFormula:
    """The same as formulas of budget b, classes seen C, dense features F, tasks T, network parameters p, nodes N and
    edges E of all task graphs, random features D, prototypes P of dimension d, extractors A, hidden units h and prompts
    k."""

    rows: str = "0"
    floats: str = "0"
    bytes: str = "0"


ROWS = FootprintFormula("b·C", "b·C·F", "4·b·C·F + 16·b·C")
"""Budgeted rows with their labels and positions."""
