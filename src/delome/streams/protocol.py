"""Protocol: in which graph nodes are learned and in which they are asked about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from delome.errors import StreamError, shown, unknown

TEST_GRAPHS = {
    "cut": "without inter-task edges",
    "joined": "without inter-task edges while learning, with them when asked",
    "grown": "with inter-task edges",
}
"""Each graph in which nodes may be asked about, and what it says of edges between tasks."""


@dataclass(frozen=True)
class Protocol:
    """What a learner may see of the graph, and when.

    ``test_graph``: ``cut`` (the benchmark: learned and asked about in the graph of each task alone), ``joined``
    (learned in the graph of the task, asked about in the graph of everything seen so far) or ``grown`` (learned and
    asked about in the graph of everything seen so far). ``inductive``: test nodes and their edges are absent while
    learning; otherwise they are there without labels (transductive).

    >>> Protocol("joined", inductive=True).in_words()
    'without inter-task edges while learning, with them when asked; inductive'
    """

    test_graph: str = "cut"
    inductive: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.test_graph, str) or self.test_graph not in TEST_GRAPHS:
            name = self.test_graph if isinstance(self.test_graph, str) else shown(self.test_graph)
            raise StreamError(unknown("test graph", name, TEST_GRAPHS))
        if not isinstance(self.inductive, bool):
            raise StreamError(f"inductive must be true or false, not {shown(self.inductive)}")

    @property
    def grows(self) -> bool:
        """Whether tasks are learned in the graph of everything seen so far."""
        return self.test_graph == "grown"

    @property
    def test_nodes(self) -> str:
        """How test nodes are treated while learning."""
        return "inductive" if self.inductive else "transductive"

    def in_words(self) -> str:
        return f"{TEST_GRAPHS[self.test_graph]}; {self.test_nodes}"

    def describe(self) -> dict[str, Any]:
        """What differs from the benchmark, with edges between tasks as they have always been written."""
        found: dict[str, Any] = {"inter_task_edges": self.grows}
        if self.test_graph == "joined":
            found["test_graph"] = self.test_graph
        return found | ({"test_nodes": self.test_nodes} if self.inductive else {})
