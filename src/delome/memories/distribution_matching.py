"""Distribution matching: rows whose mean embeddings under random encoders are those of their class (CaT)."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor

from delome.graph.lengths import lengths_of
from delome.memories.builder import MEMORIES, Context, MemoryBuilder
from delome.memories.descent import descend
from delome.memories.initial import ClassRows
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
    """Learns rows by one Adam step for each of ``encoders`` random encoders.

    Real rows are propagated as many hops as the backbone does, learned rows are read as they are: the memory lives in
    propagated space. It starts from raw features of random training nodes. Columns that no node uses stay zero.
    """

    encoders: Annotated[int, Param("random encoders", at_least=1)] = 3000
    lr: Annotated[float, Param("Adam's step size of the memory rows", above=0)] = 1e-3
    encoder_width: Annotated[int, Param("units of a random encoder", at_least=1)] = 512
    encoder_hops: Annotated[
        int | None, Param("propagation steps before the encoder; none = as many as the backbone", at_least=0)
    ] = None

    def build(self, observation: Observation, context: Context) -> Memory:
        hops = context.hops if self.encoder_hops is None else self.encoder_hops
        rng, device = context.rng, context.device
        task = ClassRows.of(observation, hops, "raw", self.budget, rng)
        bound = (6 / (task.width + self.encoder_width)) ** 0.5  # Glorot's, of all columns
        real, real_sizes = torch.cat(task.real).to(device), [len(part) for part in task.real]
        rows, sizes = torch.cat(task.start).to(device).requires_grad_(), [len(part) for part in task.start]

        def distance() -> Tensor:
            encoder = uniform(rng, (len(task.columns), self.encoder_width), bound).to(device)
            wanted = mean_embeddings(real, encoder, real_sizes)
            return distribution_distance(wanted, mean_embeddings(rows, encoder, sizes))

        descend(rows, distance, self.lr, self.encoders, context)
        return task.remember(observation, list(rows.detach().split(sizes)))
