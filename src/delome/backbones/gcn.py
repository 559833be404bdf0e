"""GCN: a graph convolution before each layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from delome.backbones.attention import InEdges, topology_norm
from delome.backbones.backbone import BACKBONES, Block
from delome.backbones.two_layers import TwoLayerNetwork, TwoLayers
from delome.graph import Graph
from delome.graph.rows import Rows, SparseMatrix
from delome.graph.sparse import Features, narrow, times
from delome.parameters import Param


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


@BACKBONES.register("gcn")
class GCN(TwoLayers):
    """``f(X) = S relu(S X W1) W2`` (Kipf and Welling, 2017); ``S X`` has no parameters and is computed once.

    With ``norm="none"`` S is A + I, a plain sum over neighbours, as in the benchmark of the paper.
    """

    local = True

    norm: Annotated[
        Literal["sym", "none"], Param("sym: D^-1/2 (A + I) D^-1/2; none: sums over neighbours, as in the benchmark")
    ] = "sym"

    def prepare(self, graph: Graph, device: torch.device) -> Neighbourhood:
        def compute() -> Neighbourhood:
            if self.norm == "sym":
                operator, reached = graph.operator(), graph.propagate(1)
            else:
                operator = graph.adjacency_with_loops()
                reached = times(operator, graph.features)
            return Neighbourhood(Rows.of(reached, device), SparseMatrix(operator, device))

        neighbourhood: Neighbourhood = graph.cached(("gcn", self.norm, device), compute)
        return neighbourhood

    def join(self, parts: Sequence[Neighbourhood]) -> Neighbourhood:
        union = sp.csr_array(sp.block_diag([part.operator.matrix for part in parts], format="csr"))
        return Neighbourhood(Rows.join([part.reached for part in parts]), SparseMatrix(union, parts[0].operator.device))

    def read_blocks(self, features: Features, inner: Block, outer: Block, device: torch.device) -> Neighbourhood:
        first, second = (block.operator() if self.norm == "sym" else block.pattern for block in (inner, outer))
        return Neighbourhood(Rows.of(times(first, features), device), SparseMatrix(second, device))

    def network(self, features: int, classes: int, rng: np.random.Generator, device: torch.device) -> GCNNetwork:
        return GCNNetwork(self, features, classes, rng, device)


class GCNNetwork(TwoLayerNetwork):
    """The two layers, each after a sum over neighbours."""

    def forward(self, inputs: Neighbourhood) -> Tensor:
        activations = inputs.reached.times(self.first).relu()
        return inputs.operator.times(activations @ self.second)

    def embed(self, graph: Graph, nodes: np.ndarray) -> Tensor:
        inputs: Neighbourhood = self.prepare(graph)
        return inputs.reached.select(nodes).times(self.first).relu()

    def topology(self, graph: Graph) -> Tensor:
        """Attention between the first layer's outputs."""
        inputs: Neighbourhood = self.prepare(graph)
        return topology_norm(inputs.reached.times(self.first), InEdges.of(graph, self.device))
