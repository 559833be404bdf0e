"""What can be made of noisy moments by whoever knows how much noise is in them."""

from __future__ import annotations

import numpy as np

LEAST_KEPT = 0.05
"""Share of its distance to the mean of all classes that a class mean keeps at least."""


def shrunk_means(sums: np.ndarray, counts: np.ndarray, variances: np.ndarray) -> np.ndarray:
    """Class means, each drawn towards that of all classes by the share of its distance that noise explains.

    With noise of variance v in the sum s of a class of n rows, m = s / n and M the mean of all classes it keeps
    1 - (v / n²) / (|m - M|² / D) of m - M.
    """
    means, centre = sums / counts[:, None], sums.sum(axis=0) / counts.sum()
    apart = np.square(means - centre).mean(axis=1)
    explained = np.divide(variances / counts**2, apart, out=np.zeros_like(apart), where=apart > 0)
    found: np.ndarray = centre + np.clip(1 - explained, LEAST_KEPT, 1.0)[:, None] * (means - centre)
    return found


def within_covariance(second: np.ndarray, sums: np.ndarray, counts: np.ndarray, variances: np.ndarray) -> np.ndarray:
    """(Σ u uᵀ - Σ_c s_c s_cᵀ / n_c) / n; noise of variance v in s_c adds (v / n_c) I to the second term, which is given
    back."""
    within = second - (sums.T / counts) @ sums + np.eye(len(second)) * (variances / counts).sum()
    found: np.ndarray = (within + within.T) / (2 * counts.sum())
    return found
