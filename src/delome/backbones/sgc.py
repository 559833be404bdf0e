"""SGC: propagate first, classify rows after."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
from torch import Tensor

from delome.backbones.attention import InEdges, topology_norm
from delome.backbones.backbone import Backbone, Block, Inputs
from delome.graph import Graph
from delome.graph.rows import Rows
from delome.graph.sparse import Features, times


class SGC(Backbone):
    """``f(X) = relu(S² X W1) W2`` (Wu et al., 2019, with one hidden layer as in the benchmark of the paper).

    ``S² X`` has no parameters: it is computed once per graph, and training and evaluation work on its rows.
    """

    def prepare(self, graph: Graph) -> Rows:
        rows: Rows = graph.cached(("sgc", self.device), lambda: Rows.of(graph.propagate(self.hops), self.device))
        return rows

    def join(self, parts: Sequence[Inputs]) -> Rows:
        return Rows.join(cast(Sequence[Rows], parts))

    def read_blocks(self, features: Features, inner: Block, outer: Block) -> Rows:
        return Rows.of(times(outer.operator(), times(inner.operator(), features)), self.device)

    def forward(self, inputs: Inputs) -> Tensor:
        return cast(Rows, inputs).times(self.first).relu() @ self.second

    def embed(self, graph: Graph, nodes: np.ndarray) -> Tensor:
        return self.prepare(graph).select(nodes).times(self.first).relu()

    def topology(self, graph: Graph) -> Tensor:
        """Attention between the logits."""
        edges = InEdges.of(graph, self.device)
        return topology_norm(self(self.prepare(graph)), edges)
