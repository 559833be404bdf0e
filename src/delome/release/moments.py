"""Noisy moments of rows: what is released of a task in place of its nodes.

A node is one row u of length at most 1, of one class. Adding or removing it changes the released statistics

    Σ_{class} u     by at most 1          its count     by 1          Σ u uᵀ     by |u|² ≤ 1 (Frobenius norm)

Each part is a Gaussian mechanism with μᵢ² = share · μ², and shares add up to 1: together they are one mechanism of μ.
Of the symmetric Σ u uᵀ the diagonal and √2 times what is below it are released, whose Euclidean norm is the Frobenius
norm: entries off the diagonal get noise of σ/√2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from delome.release.noise import Noise


class Shares(NamedTuple):
    """Shares of μ² that sums, counts and second moments get."""

    sums: float = 0.65
    counts: float = 0.05
    second: float = 0.30

    def deviations(self, mu: float) -> Deviations:
        """Standard deviations of the noise of each part: 1 / (μ √share)."""
        return Deviations(*(0.0 if math.isinf(mu) else 1 / (mu * math.sqrt(share)) for share in self))


class Deviations(NamedTuple):
    """Standard deviations of noise."""

    sums: float
    counts: float
    second: float


@dataclass(frozen=True)
class Moments:
    """Noisy sums of rows and numbers of rows of some classes, and the noisy second moment of all of them."""

    sums: np.ndarray
    counts: np.ndarray
    second: np.ndarray


def exact_moments(
    rows: np.ndarray, labels: np.ndarray, classes: Sequence[int], directions: np.ndarray | None = None
) -> Moments:
    """The moments without noise; rows are of length at most 1. The second moment may be that along orthonormal
    ``directions``, in which no row is longer."""
    wide = rows.astype(np.float64)
    along = wide if directions is None else wide @ directions
    one_hot = (labels[:, None] == np.asarray(classes)).astype(np.float64)
    return Moments(one_hot.T @ wide, one_hot.sum(axis=0), along.T @ along)


def release_moments(
    rows: np.ndarray,
    labels: np.ndarray,
    classes: Sequence[int],
    deviations: Deviations,
    noise: Noise,
    directions: np.ndarray | None = None,
) -> Moments:
    """The moments with noise; see the module."""
    exact = exact_moments(rows, labels, classes, directions)
    return Moments(
        exact.sums + deviations.sums * noise(exact.sums.shape),
        exact.counts + deviations.counts * noise(exact.counts.shape),
        exact.second + deviations.second * symmetric(noise(exact.second.shape)),
    )


def symmetric(normal: np.ndarray) -> np.ndarray:
    """Symmetric noise of variance 1 on the diagonal and ½ off it, of the lower triangle of independent numbers.

    >>> symmetric(np.array([[1.0, 9.0], [2.0, 3.0]])).round(3).tolist()
    [[1.0, 1.414], [1.414, 3.0]]
    """
    below = np.tril(normal, -1) / math.sqrt(2)
    found: np.ndarray = below + below.T + np.diag(np.diag(normal))
    return found


def noise_radius(deviation: float, size: int, releases: int) -> float:
    """Spectral norm of such noise of so many releases added up, for a large matrix: σ √(2 · size · releases)."""
    return deviation * math.sqrt(2 * size * releases)
