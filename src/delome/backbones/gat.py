"""GAT: two layers of graph attention."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from delome.backbones.attention import NEGATIVE_SLOPE, InEdges, attend, edge_softmax
from delome.backbones.backbone import BACKBONES, Block, widened
from delome.backbones.two_layers import TwoLayerNetwork, TwoLayers
from delome.errors import ParameterError
from delome.graph import Graph
from delome.graph.rows import Rows
from delome.graph.sparse import Features
from delome.randomness import normal

HEADS = 8
DROPOUT = 0.6


@dataclass(frozen=True)
class TwoHops:
    """Edges into the nodes to classify (``outer``), into the nodes those reach (``inner``), and all features read."""

    features: Rows
    inner: InEdges
    outer: InEdges

    def __len__(self) -> int:
        return int(self.outer.pattern.shape[0])

    def select(self, index: np.ndarray) -> TwoHops:
        """Only the chosen rows, and only the nodes they reach."""
        outer, reached = self.outer.select(index)
        inner, read = self.inner.select(reached)
        return TwoHops(self.features.select(read), inner, outer)


@BACKBONES.register("gat")
class GAT(TwoLayers):
    """``x_v ← Σ_{u→v} α_uv W x_u``, α the softmax over in-edges of LeakyReLU(a_l·W x_u + a_r·W x_v) (Veličković, 2018).

    A first layer of 8 heads, concatenated, ELU; a second layer of one head. Features and attention are dropped
    (60 %) while training. The second layer attends by all class columns, also those not in use yet, so that a
    new column changes the attention and with it the logits of all. Rows without edges only attend to themselves, so for
    them this is a plain network.
    """

    local = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.hidden % HEADS:
            raise ParameterError(f"GAT has {HEADS} heads: hidden must be a multiple of {HEADS}, not {self.hidden}")

    def prepare(self, graph: Graph, device: torch.device) -> TwoHops:
        def compute() -> TwoHops:
            edges = InEdges.of(graph, device)
            return TwoHops(Rows.of(graph.features, device), edges, edges)

        inputs: TwoHops = graph.cached(("gat", device), compute)
        return inputs

    def join(self, parts: Sequence[TwoHops]) -> TwoHops:
        return TwoHops(
            Rows.join([part.features for part in parts]),
            InEdges.join([part.inner for part in parts]),
            InEdges.join([part.outer for part in parts]),
        )

    def read_blocks(self, features: Features, inner: Block, outer: Block, device: torch.device) -> TwoHops:
        edges = (InEdges(block.pattern, block.own, device) for block in (inner, outer))
        return TwoHops(Rows.of(features, device), *edges)

    def network(self, features: int, classes: int, rng: np.random.Generator, device: torch.device) -> GATNetwork:
        return GATNetwork(self, features, classes, rng, device)


class GATNetwork(TwoLayerNetwork):
    """The two layers, and for each the two vectors that attention is computed from."""

    def __init__(
        self, backbone: GAT, features: int, classes: int, rng: np.random.Generator, device: torch.device
    ) -> None:
        super().__init__(backbone, features, classes, rng, device)
        hidden, width = backbone.hidden, backbone.hidden // HEADS
        self.first.data.copy_(_drawn(rng, features, hidden, fans=features + hidden))
        self.second.data.copy_(_drawn(rng, hidden, classes, fans=hidden + classes))
        self.first_attention = nn.Parameter(_drawn(rng, 2, HEADS, width, fans=hidden + width).to(device))
        self.second_attention = nn.Parameter(_drawn(rng, 2, 1, classes, fans=2 * classes).to(device))

    def grow(self, classes: int, rng: np.random.Generator) -> None:
        hidden, known = self.second.shape
        self.second = widened(self.second, _drawn(rng, hidden, classes - known, fans=hidden + classes))
        self.second_attention = widened(self.second_attention, _drawn(rng, 2, 1, classes - known, fans=2 * classes))

    def forward(self, inputs: TwoHops) -> Tensor:
        values = (self._dropped(self._activations(inputs)) @ self.second)[:, None]
        return self._layer(values, self.second_attention, inputs.outer)[:, 0]

    def _activations(self, hops: TwoHops) -> Tensor:
        """Hidden units of the nodes reached."""
        return functional.elu(self._layer(self._projected(hops), self.first_attention, hops.inner).flatten(1))

    def _projected(self, hops: TwoHops) -> Tensor:
        features = hops.features if self.noise is None else hops.features.dropped(DROPOUT, self.noise)
        projected = features.times(self.first)
        return projected.view(len(projected), HEADS, -1)

    def _layer(self, values: Tensor, attention: Tensor, edges: InEdges) -> Tensor:
        return attend(self._dropped(_coefficients(values, attention, edges)), values, edges)

    def _dropped(self, values: Tensor) -> Tensor:
        if self.noise is None:
            return values
        kept = torch.rand(values.shape, generator=self.noise, device=values.device) >= DROPOUT
        return values * kept / (1 - DROPOUT)

    def embed(self, graph: Graph, nodes: np.ndarray) -> Tensor:
        whole: TwoHops = self.prepare(graph)
        hops = whole.select(nodes)
        return self._activations(hops)[torch.from_numpy(hops.outer.own).to(self.device)]

    def topology(self, graph: Graph) -> Tensor:
        """Norm of the first layer's attention."""
        hops: TwoHops = self.prepare(graph)
        coefficients = _coefficients(self._projected(hops), self.first_attention, hops.inner)
        return coefficients.square().sum().sqrt()


def _drawn(rng: np.random.Generator, *shape: int, fans: int) -> Tensor:
    """Xavier's normal distribution with the gain of ReLU."""
    return normal(rng, shape, 2 * fans**-0.5)


def _coefficients(values: Tensor, attention: Tensor, edges: InEdges) -> Tensor:
    """α of every edge and head."""
    own = torch.from_numpy(edges.own).to(values.device)
    from_source = (values * attention[0]).sum(dim=2)
    from_target = (values[own] * attention[1]).sum(dim=2)
    scores = functional.leaky_relu(from_source[edges.sources] + from_target[edges.targets], NEGATIVE_SLOPE)
    return edge_softmax(scores, edges.targets, len(own))
