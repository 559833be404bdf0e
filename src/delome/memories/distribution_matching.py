"""Distribution matching: rows whose mean embeddings under random encoders are those of their class (CaT)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal

import numpy as np
import torch
from torch import Tensor

from delome.graph.lengths import lengths_of
from delome.graph.sparse import Features
from delome.memories.builder import MEMORIES, Context, MemoryBuilder
from delome.memories.by_class import Learned, learn_classes
from delome.memories.descent import descend
from delome.memories.initial import ClassRows, initial_weights
from delome.memories.kernel import Kernel
from delome.memories.matching import match
from delome.memories.memory import Memory
from delome.parameters import Param
from delome.randomness import uniform
from delome.streams.tasks import Observation


def mean_embeddings(rows: Tensor, encoder: Tensor, sizes: list[int]) -> Tensor:
    """Mean over each class's rows of ``φ / ‖φ‖`` with φ = relu(x W)."""
    units = (rows @ encoder).relu()
    embedded = units / lengths_of(units).clamp(min=1e-12)
    return torch.stack([part.mean(dim=0) for part in embedded.split(sizes)])


def distribution_distance(real: Tensor, learned: Tensor) -> Tensor:
    """``Σ_c ‖mean e_c - mean ê_c‖²``."""
    return (real - learned).square().sum()


@MEMORIES.register("distribution-matching")
class DistributionMatching(MemoryBuilder):
    """Learns rows whose mean embedding under random encoders is that of their class.

    ``encoders="exact"`` minimises the expectation over encoders in closed form (`Kernel.embedding`), starting from
    mixtures of rows; a number takes one Adam step of ``lr`` for each of so many encoders of ``encoder_width`` units, as
    in the paper, starting from raw features of random training nodes. Real rows are propagated as many hops as the
    backbone does, learned rows are read as they are: the memory lives in propagated space. Columns that no node uses
    stay zero.
    """

    encoders: Annotated[
        int | Literal["exact"], Param("random encoders, or exact: their expectation in closed form", at_least=1)
    ] = "exact"
    lr: Annotated[float, Param("Adam's step size of the memory rows, with a number of encoders", above=0)] = 1e-3
    encoder_width: Annotated[int, Param("units of a random encoder; in closed form very many", at_least=1)] = 512
    encoder_hops: Annotated[
        int | None, Param("propagation steps before the encoder; none = as many as the backbone", at_least=0)
    ] = None

    def updates(self) -> int:
        """Adam's steps with each of a number of encoders."""
        return 1

    def build(self, observation: Observation, context: Context) -> Memory:
        hops = context.hops if self.encoder_hops is None else self.encoder_hops
        if isinstance(self.encoders, int):
            return self._sampled(self.encoders, hops, observation, context)
        return self._exact(hops, observation, context)

    def _exact(self, hops: int, observation: Observation, context: Context) -> Memory:
        propagated = observation.graph.propagate(hops)

        def rows_of(column: int) -> Features:
            return propagated[observation.train[observation.labels == column]]

        def learn(column: int, real: Features, rng: np.random.Generator) -> Learned:
            weights = initial_weights("mixture", real.shape[0], self.budget, rng)
            matched = match(real, weights, Kernel.embedding(), rng, context.device)
            return Learned(matched.rows, {"steps": matched.steps})

        return learn_classes(observation, context, rows_of, learn)

    def _sampled(self, encoders: int, hops: int, observation: Observation, context: Context) -> Memory:
        rng, device = context.rng, context.device
        task = ClassRows.of(observation, hops, "raw", self.budget, rng)
        bound = (6 / (task.width + self.encoder_width)) ** 0.5  # Glorot's, of all columns
        real, real_sizes = torch.cat(task.real).to(device), [len(part) for part in task.real]
        rows, sizes = torch.cat(task.start).to(device).requires_grad_(), [len(part) for part in task.start]

        def draw() -> Callable[[], Tensor]:
            encoder = uniform(rng, (len(task.columns), self.encoder_width), bound).to(device)
            wanted = mean_embeddings(real, encoder, real_sizes)
            return lambda: distribution_distance(wanted, mean_embeddings(rows, encoder, sizes))

        descend(rows, draw, self.lr, encoders, context, self.updates())
        return task.remember(observation, list(rows.detach().split(sizes)))


@MEMORIES.register("repeated-distribution-matching")
class RepeatedDistributionMatching(DistributionMatching):
    """The same with few, wide encoders: a number of them takes several steps of a new Adam with each, as in PUMA."""

    encoder_width = 4096
    encoder_updates: Annotated[
        int, Param("steps with each encoder; if there are several, Adam starts anew with each encoder", at_least=1)
    ] = 10

    def updates(self) -> int:
        return self.encoder_updates
