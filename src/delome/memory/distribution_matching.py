"""Distribution matching: rows whose mean embeddings under random encoders are those of their class (CaT)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from delome.columns import LabelColumns
from delome.memory.bank import Memory
from delome.memory.initial import initial_weights
from delome.memory.kernel import CPU
from delome.randomness import uniform
from delome.sparse import smaller, to_dense, used_columns, widen
from delome.stream import Observation
from delome.tracking import Tracker


def mean_embeddings(rows: Tensor, encoder: Tensor, sizes: list[int]) -> Tensor:
    """Mean over each class's rows of ``φ / ‖φ‖`` with φ = relu(x W)."""
    embedded = functional.normalize((rows @ encoder).relu(), dim=1, eps=1e-12)
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
        propagated, raw = observation.graph.propagate(self.hops), observation.graph.features
        used = used_columns(raw, propagated)
        bound = (6 / (raw.shape[1] + self.width)) ** 0.5  # Glorot's, of the full width
        real, start = [], []
        for column in observation.classes:
            nodes = observation.train[observation.labels == column]
            weights = initial_weights("raw", len(nodes), self.budget, rng)
            real.append(torch.from_numpy(to_dense(propagated[nodes][:, used])))
            start.append(torch.from_numpy(weights @ to_dense(raw[nodes][:, used])))
        real_rows, real_sizes = torch.cat(real).to(self.device), [len(part) for part in real]
        rows, sizes = torch.cat(start).to(self.device).requires_grad_(), [len(part) for part in start]
        optimizer = torch.optim.Adam([rows], lr=self.lr, fused=True)
        with tracker.phase("memory", self.encoders) as step:
            for _ in range(self.encoders):
                encoder = uniform(rng, (len(used), self.width), bound).to(self.device)
                wanted = mean_embeddings(real_rows, encoder, real_sizes)
                optimizer.zero_grad()
                distribution_distance(wanted, mean_embeddings(rows, encoder, sizes)).backward()
                optimizer.step()
                step()
        features = smaller(widen(rows.detach().cpu().numpy(), used, raw.shape[1]))
        return Memory.of_rows(observation.index, features, np.repeat(observation.classes, sizes))
