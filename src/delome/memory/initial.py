"""Where learned memory rows start from: combinations of the real rows of their class."""

from __future__ import annotations

from typing import Literal

import numpy as np
import scipy.sparse as sp

Initial = Literal["raw", "propagated", "noise", "mixture"]

MIXED_ROWS = 5
"""Real rows that a mixture averages."""


def initial_weights(kind: Initial, rows: int, budget: int, rng: np.random.Generator) -> sp.csr_array | np.ndarray:
    """Weights of ``min(budget, rows)`` combinations of ``rows`` real rows.

    ``raw`` and ``propagated``: distinct single rows (of raw or propagated features).
    ``mixture``: averages of a few random rows with random weights.
    ``noise``: Gaussian with the mean and covariance of the rows. Neither of the last two is anybody's row, unless the
    class has a single one.
    """
    count = min(budget, rows)
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
    indptr = np.arange(0, chosen.size + 1, chosen.shape[1])
    return sp.csr_array((shares.ravel(), chosen.ravel(), indptr), shape=(count, rows))
