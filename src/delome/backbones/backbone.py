"""What a backbone is: a value that prepares graphs and makes networks; and what a network is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from delome.errors import ParameterError
from delome.graph import Graph
from delome.parameters import Component
from delome.registry import Registry

BACKBONES: Registry[type[Backbone]] = Registry("backbone", "backbones", lambda: Backbone)


class Inputs(Protocol):
    """Rows a network can classify."""

    def __len__(self) -> int: ...

    def select(self, index: np.ndarray) -> Inputs: ...


class Network(nn.Module, ABC):
    """Logits of prepared rows over class columns.

    Columns may exist before their classes are seen, or be added later; which of them a row may use is decided outside.
    """

    noise: torch.Generator | None = None

    def __init__(self, backbone: Backbone, device: torch.device) -> None:
        super().__init__()
        self.backbone, self.device = backbone, device

    @abstractmethod
    def forward(self, inputs: Any) -> Tensor:
        """Logits over all class columns."""

    @abstractmethod
    def grow(self, classes: int, rng: np.random.Generator) -> None:
        """Appends columns until there are ``classes``; existing columns keep their exact weights."""

    def prepare(self, graph: Graph) -> Any:
        """What the network reads of a graph."""
        return self.backbone.prepare(graph, self.device)

    @contextmanager
    def dropout_from(self, noise: torch.Generator) -> Iterator[None]:
        """While this block runs, a network that drops values draws them from here; outside it drops none."""
        self.noise = noise
        try:
            yield
        finally:
            self.noise = None

    def __call__(self, inputs: Any) -> Tensor:
        logits: Tensor = super().__call__(inputs)
        return logits


class Backbone(Component, ABC):
    """A kind of network, with its parameters.

    ``hops`` is how far a node sees: a memory row without edges stands for a row of S^hops X. If a backbone is
    ``local``, what it reads of a node is within so many hops and of the degrees there only what the graph's operator
    says: few nodes of a large graph are then classified in the part of it that they see.
    """

    hops: ClassVar[int] = 2
    local: ClassVar[bool] = False

    @abstractmethod
    def prepare(self, graph: Graph, device: torch.device) -> Any:
        """What a network reads of a graph: `Inputs`, computed once per graph (see `Graph.cached`)."""

    @abstractmethod
    def join(self, parts: Sequence[Any]) -> Any:
        """Disjoint union of prepared inputs."""

    @abstractmethod
    def network(self, features: int, classes: int, rng: np.random.Generator, device: torch.device) -> Network:
        """A fresh network."""


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


def offered(by: Network | Backbone, ability: str, needed_for: str) -> Any:
    """A method that not every network or backbone has, or a sentence for one without it.

    A network may ``embed(graph, nodes)`` (activations of nodes that its last layer reads) and have a
    ``topology(graph)`` (norm of the attention between neighbours, differentiable in its parameters); a backbone may
    ``read_blocks(features, inner, outer, device)`` (inputs from features of the sources of a block ``inner``, whose
    targets are the sources of ``outer``, whose targets are to be classified).
    """
    if not hasattr(by, ability):
        name = BACKBONES.name_of(type(by.backbone if isinstance(by, Network) else by))
        raise ParameterError(f"backbone {name} does not offer '{ability}', which {needed_for} needs: choose another")
    return getattr(by, ability)


def widened(parameter: nn.Parameter, columns: Tensor) -> nn.Parameter:
    """Parameter with these columns after its own."""
    return nn.Parameter(torch.cat([parameter.detach(), columns.to(parameter.device)], dim=-1))
