"""Where learned memory rows start from: combinations of the real rows of their class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from delome.memory.bank import Memory
from delome.sparse import smaller, to_dense, used_columns, widen
from delome.stream import Observation

Initial = Literal["raw", "propagated", "noise", "mixture"]


@dataclass(frozen=True)
class ClassRows:
    """Dense rows of each class of a task: the real ones, propagated, and those that learning starts from.

    Columns that no node of the task uses are left out; ``remember`` puts learned rows back among all columns.
    """

    real: list[Tensor]
    start: list[Tensor]
    columns: np.ndarray
    width: int

    @classmethod
    def of(cls, observation: Observation, hops: int, kind: Initial, budget: int, rng: np.random.Generator) -> ClassRows:
        """Training rows of an observation, and initial rows of the given kind."""
        propagated = observation.graph.propagate(hops)
        begin_from = observation.graph.features if kind == "raw" else propagated
        used = used_columns(observation.graph.features, propagated)
        real, start = [], []
        for column in observation.classes:
            nodes = observation.train[observation.labels == column]
            weights = initial_weights(kind, len(nodes), budget, rng)
            real.append(torch.from_numpy(to_dense(propagated[nodes][:, used])))
            start.append(torch.from_numpy(weights @ to_dense(begin_from[nodes][:, used])))
        return cls(real, start, used, propagated.shape[1])

    def remember(
        self, observation: Observation, learned: list[Tensor], report: dict[str, list[float]] | None = None
    ) -> Memory:
        """Memory of learned rows, one tensor for each class."""
        features = smaller(widen(torch.cat(learned).cpu().numpy(), self.columns, self.width))
        labels = np.repeat(observation.classes, [len(rows) for rows in learned])
        return Memory.of_rows(observation.index, features, labels, report)


MIXED_ROWS = 5
"""Real rows that a mixture averages."""


def initial_weights(
    kind: Initial, rows: int, budget: int, rng: np.random.Generator, stand_for: np.ndarray | None = None
) -> sp.csr_array | np.ndarray:
    """Weights of ``min(budget, rows)`` combinations of ``rows`` real rows; each may ``stand_for`` several.

    ``raw`` and ``propagated``: distinct single rows (of raw or propagated features).
    ``mixture``: averages of a few random rows with random weights.
    ``noise``: Gaussian with the mean and covariance of the rows. Neither of the last two is anybody's row, unless the
    class has a single one.
    """
    count = min(budget, rows)
    if stand_for is not None:
        return _weighted_initial(kind, count, stand_for / stand_for.sum(), rng)
    if kind == "noise":
        draws = rng.standard_normal((count, rows), dtype=np.float32)
        draws -= draws.mean(axis=1, keepdims=True)
        noise: np.ndarray = draws / np.float32(np.sqrt(rows)) + np.float32(1 / rows)
        return noise
    if kind == "mixture":
        mixed = min(MIXED_ROWS, rows)
        # consecutive pieces of one random order: distinct rows within a mixture, all rows used evenly
        order = rng.permutation(rows)
        chosen = order[(np.arange(count)[:, None] * mixed + np.arange(mixed)) % rows]
        shares = rng.dirichlet(np.ones(mixed), size=count).astype(np.float32)
    else:
        chosen = np.sort(rng.choice(rows, count, replace=False))[:, None]
        shares = np.ones((count, 1), dtype=np.float32)
    return _combinations(chosen, shares, rows)


def _weighted_initial(
    kind: Initial, count: int, probability: np.ndarray, rng: np.random.Generator
) -> sp.csr_array | np.ndarray:
    """The same for rows that are chosen, or count in a mean and a covariance, with these probabilities."""
    rows = len(probability)
    if kind == "noise":
        draws = rng.standard_normal((count, rows)) * np.sqrt(probability)
        noise: np.ndarray = draws + probability * (1 - draws.sum(axis=1, keepdims=True))
        return noise.astype(np.float32)
    mixed = min(MIXED_ROWS, rows) if kind == "mixture" else 1
    if mixed == 1:
        chosen = np.sort(rng.choice(rows, count, replace=False, p=probability))[:, None]
        return _combinations(chosen, np.ones((count, 1), dtype=np.float32), rows)
    chosen = np.stack([rng.choice(rows, mixed, replace=False, p=probability) for _ in range(count)])
    return _combinations(chosen, rng.dirichlet(np.ones(mixed), size=count).astype(np.float32), rows)


def _combinations(chosen: np.ndarray, shares: np.ndarray, rows: int) -> sp.csr_array:
    """Weights of combinations of chosen rows: a line of numbers and of shares for each."""
    indptr = np.arange(0, chosen.size + 1, chosen.shape[1])
    return sp.csr_array((shares.ravel(), chosen.ravel(), indptr), shape=(len(chosen), rows))
