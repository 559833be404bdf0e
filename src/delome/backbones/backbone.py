"""What every backbone offers: prepare a graph once, then logits for its rows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from delome.graph import Graph
from delome.graph.sparse import Features
from delome.randomness import uniform


class Inputs(Protocol):
    """Rows a backbone can classify."""

    def __len__(self) -> int: ...

    def select(self, index: np.ndarray) -> Inputs: ...


@dataclass(frozen=True)
class Block:
    """Some nodes and sampled in-neighbours of theirs: a pattern targets × sources of ones, self-loops included.

    ``own[v]`` is the position of target v among the sources.
    """

    pattern: sp.csr_array
    own: np.ndarray

    def operator(self) -> sp.csr_array:
        """``D_in^-1/2 P D_out^-1/2`` with degrees inside the block."""
        received = np.repeat(np.diff(self.pattern.indptr), np.diff(self.pattern.indptr))
        sent = np.bincount(self.pattern.indices, minlength=self.pattern.shape[1])[self.pattern.indices]
        data = (1 / np.sqrt(received * sent)).astype(np.float32)
        return sp.csr_array((data, self.pattern.indices, self.pattern.indptr), shape=self.pattern.shape)


class Backbone(nn.Module):
    """Two layers without bias: ``first`` maps features to hidden units, ``second`` hidden units to class columns.

    Weights start uniform in ±1/√fan_in. Class columns may exist before their classes are seen, or be added later;
    which of them a row may use is decided outside.
    """

    hops = 2
    noise: torch.Generator | None = None
    """Source of dropout; set while a network trains, and only GAT uses it."""

    def __init__(
        self, features: int, hidden: int, classes: int, rng: np.random.Generator, device: torch.device
    ) -> None:
        super().__init__()
        self.device = device
        self.first = nn.Parameter(uniform(rng, (features, hidden), features**-0.5).to(device))
        self.second = nn.Parameter(uniform(rng, (hidden, classes), hidden**-0.5).to(device))

    def grow(self, classes: int, rng: np.random.Generator) -> None:
        """Appends columns until there are ``classes``, drawn like the first ones; those keep their exact values."""
        hidden, known = self.second.shape
        self.second = widened(self.second, uniform(rng, (hidden, classes - known), hidden**-0.5))

    @abstractmethod
    def prepare(self, graph: Graph) -> Inputs:
        """What the network reads of a graph, computed once per graph."""

    @abstractmethod
    def join(self, parts: Sequence[Inputs]) -> Inputs:
        """Disjoint union of prepared inputs."""

    @abstractmethod
    def read_blocks(self, features: Features, inner: Block, outer: Block) -> Inputs:
        """What the network reads of sampled neighbourhoods: features of the sources of ``inner``, whose targets are
        the sources of ``outer``, whose targets are to be classified."""

    @abstractmethod
    def forward(self, inputs: Inputs) -> Tensor:
        """Logits over all class columns."""

    @abstractmethod
    def embed(self, graph: Graph, nodes: np.ndarray) -> Tensor:
        """Hidden units of nodes: the activations that the second layer reads."""

    @abstractmethod
    def topology(self, graph: Graph) -> Tensor:
        """Norm of the attention between neighbours, differentiable in the parameters (for TWP)."""

    def __call__(self, inputs: Inputs) -> Tensor:
        logits: Tensor = super().__call__(inputs)
        return logits


def widened(parameter: nn.Parameter, columns: Tensor) -> nn.Parameter:
    """Parameter with these columns after its own."""
    return nn.Parameter(torch.cat([parameter.detach(), columns.to(parameter.device)], dim=-1))
