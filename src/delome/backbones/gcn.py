"""GCN: two graph convolutions with symmetric normalisation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import scipy.sparse as sp
from torch import Tensor

from delome.backbones.attention import InEdges, topology_norm
from delome.backbones.backbone import Backbone, Block, Inputs
from delome.graph import Graph
from delome.graph.rows import Rows, SparseMatrix
from delome.graph.sparse import Features, narrow, times


@dataclass(frozen=True)
class Neighbourhood:
    """Rows of ``S`` to classify, and the once-propagated features ``S X`` of the nodes they reach."""

    reached: Rows
    operator: SparseMatrix

    def __len__(self) -> int:
        return int(self.operator.matrix.shape[0])

    def select(self, index: np.ndarray) -> Neighbourhood:
        """Only the chosen rows, and only the nodes they reach."""
        chosen, reached = narrow(self.operator.matrix[index])
        return Neighbourhood(self.reached.select(reached), SparseMatrix(chosen, self.operator.device))


class GCN(Backbone):
    """``f(X) = S relu(S X W1) W2`` (Kipf and Welling, 2017); ``S X`` has no parameters and is computed once."""

    def prepare(self, graph: Graph) -> Neighbourhood:
        def compute() -> Neighbourhood:
            return Neighbourhood(Rows.of(graph.propagate(1), self.device), SparseMatrix(graph.operator(), self.device))

        neighbourhood: Neighbourhood = graph.cached(("gcn", self.device), compute)
        return neighbourhood

    def join(self, parts: Sequence[Inputs]) -> Neighbourhood:
        pieces = cast(Sequence[Neighbourhood], parts)
        union = sp.csr_array(sp.block_diag([piece.operator.matrix for piece in pieces], format="csr"))
        return Neighbourhood(Rows.join([piece.reached for piece in pieces]), SparseMatrix(union, self.device))

    def read_blocks(self, features: Features, inner: Block, outer: Block) -> Neighbourhood:
        reached = Rows.of(times(inner.operator(), features), self.device)
        return Neighbourhood(reached, SparseMatrix(outer.operator(), self.device))

    def forward(self, inputs: Inputs) -> Tensor:
        neighbourhood = cast(Neighbourhood, inputs)
        activations = neighbourhood.reached.times(self.first).relu()
        return neighbourhood.operator.times(activations @ self.second)

    def embed(self, graph: Graph, nodes: np.ndarray) -> Tensor:
        return self.prepare(graph).reached.select(nodes).times(self.first).relu()

    def topology(self, graph: Graph) -> Tensor:
        """Attention between the first layer's outputs."""
        edges = InEdges.of(graph, self.device)
        return topology_norm(self.prepare(graph).reached.times(self.first), edges)
