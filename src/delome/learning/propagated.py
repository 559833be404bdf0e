"""Learners without a network of layers: they read propagated rows of nodes, and nothing else."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from delome.graph import Graph
from delome.graph.neighbourhood import seen_by
from delome.graph.sparse import Features
from delome.learning.learner import Learner

HOPS = 2


class PropagatedLearner(Learner):
    """Reads rows of S² X; learners that do share what was computed of a task."""

    def inputs_key(self) -> Hashable:
        return "propagated", self.width

    def inputs(self, graph: Graph, nodes: np.ndarray) -> Features:
        graph, nodes = seen_by(graph, nodes, HOPS)
        return graph.propagate(HOPS)[nodes]

    def sees(self) -> int:
        return HOPS
