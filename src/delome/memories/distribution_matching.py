"""Distribution matching: rows whose mean embeddings under random encoders are those of their class (CaT)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from delome.lengths import lengths_of
from delome.memories.bank import Memory
from delome.memories.descent import descend
from delome.memories.initial import ClassRows
from delome.memories.kernel import CPU
from delome.progress import Tracker
from delome.randomness import uniform
from delome.streams.columns import LabelColumns
from delome.streams.tasks import Observation


def mean_embeddings(rows: Tensor, encoder: Tensor, sizes: list[int]) -> Tensor:
    """Mean over each class's rows of ``φ / ‖φ‖`` with φ = relu(x W)."""
    units = (rows @ encoder).relu()
    embedded = units / lengths_of(units).clamp(min=1e-12)
    return torch.stack([part.mean(dim=0) for part in embedded.split(sizes)])


def distribution_distance(real: Tensor, learned: Tensor) -> Tensor:
    """``Σ_c ‖mean e_c - mean ê_c‖²``."""
    return (real - learned).square().sum()


@dataclass(frozen=True)
class DistributionMatching:
    """Learns ``budget`` rows per class, one Adam step for each of ``encoders`` random encoders.

    Real rows are propagated as many hops as the backbone does, learned rows are read as they are: the memory lives in
    propagated space. It starts from raw features of random training nodes. Columns that no node uses stay zero.
    """

    budget: int
    encoders: int = 3000
    lr: float = 1e-3
    width: int = 512
    hops: int = 2
    device: torch.device = CPU

    def build(
        self, observation: Observation, columns: LabelColumns, rng: np.random.Generator, tracker: Tracker
    ) -> Memory:
        task = ClassRows.of(observation, self.hops, "raw", self.budget, rng)
        bound = (6 / (task.width + self.width)) ** 0.5  # Glorot's, of all columns
        real, real_sizes = torch.cat(task.real).to(self.device), [len(part) for part in task.real]
        rows, sizes = torch.cat(task.start).to(self.device).requires_grad_(), [len(part) for part in task.start]

        def distance() -> Tensor:
            encoder = uniform(rng, (len(task.columns), self.width), bound).to(self.device)
            wanted = mean_embeddings(real, encoder, real_sizes)
            return distribution_distance(wanted, mean_embeddings(rows, encoder, sizes))

        descend(rows, distance, self.lr, self.encoders, rng, tracker)
        return task.remember(observation, list(rows.detach().split(sizes)))
