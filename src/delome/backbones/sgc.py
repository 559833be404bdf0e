"""SGC: propagate first, classify rows after."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from torch import Tensor

from delome.backbones.backbone import Backbone, Inputs
from delome.backbones.rows import Rows
from delome.graph import Graph


class SGC(Backbone):
    """``f(X) = relu(S² X W1) W2`` (Wu et al., 2019, with one hidden layer as in the benchmark of the paper).

    ``S² X`` has no parameters: it is computed once per graph, and training and evaluation work on its rows.
    """

    def prepare(self, graph: Graph) -> Rows:
        rows: Rows = graph.cached(("sgc", self.device), lambda: Rows.of(graph.propagate(self.hops), self.device))
        return rows

    def join(self, parts: Sequence[Inputs]) -> Rows:
        return Rows.join(cast(Sequence[Rows], parts))

    def forward(self, inputs: Inputs) -> Tensor:
        return cast(Rows, inputs).times(self.first).relu() @ self.second
