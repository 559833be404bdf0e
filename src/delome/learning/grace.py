"""GRACE: an encoder of nodes that is trained without labels, by telling nodes apart in two views of a graph."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch.nn import functional

from delome.graph import Graph
from delome.graph.rows import Rows
from delome.graph.sparse import Features, times
from delome.learning.adam import ResumableAdam
from delome.learning.training import check_finite
from delome.progress import Tracker
from delome.randomness import generator, uniform

TEMPERATURE, LR, WEIGHT_DECAY = 0.5, 1e-3, 1e-5
DROPPED_EDGES, DROPPED_COLUMNS = 0.2, 0.3
NODES_AT_ONCE = 1024
"""Nodes of a step: the loss compares all pairs of them."""
HOPS = 2


class Encoder:
    """``z = relu(S² X W₁) W₂``, without biases."""

    def __init__(self, first: Tensor, second: Tensor) -> None:
        self.first, self.second = first, second

    @classmethod
    def drawn(cls, width: int, hidden: int, rng: np.random.Generator, device: torch.device) -> Encoder:
        """Fresh weights, after Glorot and Bengio (2010)."""
        return cls(_glorot(rng, width, hidden).to(device), _glorot(rng, hidden, hidden).to(device))

    def second_layer(self, hidden: Tensor) -> Tensor:
        """Embeddings of rows whose product with the first weights is known."""
        return hidden.relu() @ self.second


def _glorot(rng: np.random.Generator, rows: int, columns: int) -> Tensor:
    return uniform(rng, (rows, columns), (6 / (rows + columns)) ** 0.5)


def contrast(first: Tensor, second: Tensor) -> Tensor:
    """Mean over nodes i, and both orders of the views, of
    ``-log e^{s(u_i,v_i)} / (Σ_j e^{s(u_i,v_j)} + Σ_{j≠i} e^{s(u_i,u_j)})`` with s the cosine over the temperature ½: a
    node in one view must be found among all nodes in both.

    >>> round(float(contrast(torch.eye(2), torch.eye(2))), 4)  # log(1 + 2 e^-2)
    0.2395
    """
    return (_one_way(first, second) + _one_way(second, first)) / 2


def _one_way(first: Tensor, second: Tensor) -> Tensor:
    u, v = functional.normalize(first), functional.normalize(second)
    between, within = u @ v.T / TEMPERATURE, u @ u.T / TEMPERATURE
    own = torch.eye(len(u), dtype=torch.bool, device=u.device)
    others = torch.cat([between, within.masked_fill(own, -torch.inf)], dim=1)
    return (others.logsumexp(dim=1) - between.diagonal()).mean()


def pretrained(graph: Graph, encoder: Encoder, steps: int, seed: int, tracker: Tracker) -> Encoder:
    """The encoder, trained on a graph without labels (Zhu et al., 2020) by the loss `contrast`.

    One view is the graph itself; in the other a fifth of the edges and three tenths of the columns are gone. Both are
    read through a projection that is thrown away. A step compares as many nodes as fit.
    """
    device, hidden = encoder.first.device, encoder.second.shape[1]
    rng = generator(seed, "projector")
    named = {
        "first": encoder.first.clone(),
        "second": encoder.second.clone(),
        "out": _glorot(rng, hidden, 2 * hidden).to(device),
        "out.bias": torch.zeros(2 * hidden, device=device),
        "back": _glorot(rng, 2 * hidden, hidden).to(device),
        "back.bias": torch.zeros(hidden, device=device),
    }
    adam = ResumableAdam(named, LR, WEIGHT_DECAY)
    whole = graph.propagate(HOPS)

    def projected(rows: Features, kept: Tensor | None) -> Tensor:
        weights = named["first"] if kept is None else named["first"] * kept[:, None]
        embedded = Encoder(weights, named["second"]).second_layer(Rows.of(rows, device).times(weights))
        between = functional.elu(embedded @ named["out"] + named["out.bias"])
        return between @ named["back"] + named["back.bias"]

    for step in tracker.steps("pretrain", steps, adam.save, adam.load):
        draw = generator(seed, "views", step)
        nodes = draw.permutation(graph.num_nodes)[:NODES_AT_ONCE]
        kept = torch.from_numpy(draw.random(graph.num_features) >= DROPPED_COLUMNS).to(device).float()
        loss = contrast(projected(whole[nodes], None), projected(_thinned(graph, nodes, draw), kept))
        check_finite(loss, "the loss of pre-training", 0, step)
        adam.step(loss)
    return Encoder(named["first"].detach().clone(), named["second"].detach().clone())


def _thinned(graph: Graph, nodes: np.ndarray, rng: np.random.Generator) -> Features:
    """Propagated rows of nodes in the graph without some of its edges."""
    edges = graph.adjacency.tocoo()
    kept = rng.random(len(edges.data)) >= DROPPED_EDGES
    adjacency = sp.csr_array((edges.data[kept], (edges.row[kept], edges.col[kept])), shape=edges.shape)
    operator = graph._like(adjacency=adjacency).operator()
    return times(sp.csr_array(operator[nodes]), times(operator, graph.features))
