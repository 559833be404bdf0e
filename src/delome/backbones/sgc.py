"""SGC: propagate first, classify rows after."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from delome.backbones.attention import InEdges, topology_norm
from delome.backbones.backbone import BACKBONES, Block
from delome.backbones.two_layers import TwoLayerNetwork, TwoLayers
from delome.graph import Graph
from delome.graph.rows import Rows
from delome.graph.sparse import Features, times


@BACKBONES.register("sgc")
class SGC(TwoLayers):
    """``f(X) = relu(S² X W1) W2`` (Wu et al., 2019, with one hidden layer as in the benchmark of the paper).

    ``S² X`` has no parameters: it is computed once per graph, and training and evaluation work on its rows.
    """

    local = True

    def prepare(self, graph: Graph, device: torch.device) -> Rows:
        rows: Rows = graph.cached(("sgc", device), lambda: Rows.of(graph.propagate(self.hops), device))
        return rows

    def join(self, parts: Sequence[Rows]) -> Rows:
        return Rows.join(parts)

    def read_blocks(self, features: Features, inner: Block, outer: Block, device: torch.device) -> Rows:
        return Rows.of(times(outer.operator(), times(inner.operator(), features)), device)

    def network(self, features: int, classes: int, rng: np.random.Generator, device: torch.device) -> SGCNetwork:
        return SGCNetwork(self, features, classes, rng, device)


class SGCNetwork(TwoLayerNetwork):
    """The two layers on propagated rows."""

    def forward(self, inputs: Rows) -> Tensor:
        return inputs.times(self.first).relu() @ self.second

    def embed(self, graph: Graph, nodes: np.ndarray) -> Tensor:
        rows: Rows = self.prepare(graph)
        return rows.select(nodes).times(self.first).relu()

    def topology(self, graph: Graph) -> Tensor:
        """Attention between the logits."""
        return topology_norm(self(self.prepare(graph)), InEdges.of(graph, self.device))
