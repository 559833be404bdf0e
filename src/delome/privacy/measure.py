"""Measures with intervals, and what they are to be compared with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import beta, norm, rankdata

CONFIDENCE = 0.99
"""Of every interval: an audit makes some twenty comparisons, and should not find a leak where there is none."""
RESAMPLES = 1000


@dataclass(frozen=True)
class Measure:
    """A number of at most 1, an interval that holds it, and the value that it has where nothing leaks."""

    value: float
    low: float
    high: float
    control: float
    count: int

    @property
    def leaks(self) -> bool:
        """Whether it is above its control beyond chance."""
        return self.low > self.control

    @property
    def saturated(self) -> bool:
        """Whether nothing could be above its control."""
        return self.control >= 1

    def as_dict(self) -> dict[str, Any]:
        return {
            "value": round(self.value, 6),
            "interval": [round(self.low, 6), round(self.high, 6)],
            "control": round(self.control, 6),
            "count": self.count,
        }


def proportion(hits: int, count: int, control: float) -> Measure | None:
    """A share with its Clopper–Pearson interval; none of nothing.

    >>> found = proportion(0, 100, 0.01)
    >>> found is not None and round(found.high, 4)
    0.0516
    """
    if count == 0:
        return None
    tail = (1 - CONFIDENCE) / 2
    low = float(beta.ppf(tail, hits, count - hits + 1)) if hits else 0.0
    high = float(beta.ppf(1 - tail, hits + 1, count - hits)) if hits < count else 1.0
    return Measure(hits / count, low, high, control, count)


def grouped_proportion(hits: np.ndarray, groups: np.ndarray, control: float) -> Measure | None:
    """The same of observations that are alike within groups: they count as (Σ sizes)² / Σ sizes² independent ones.

    >>> found = grouped_proportion(np.array([True, True, False, False]), np.array([0, 0, 1, 1]), 0.5)
    >>> found is not None and found.count
    2
    """
    if len(hits) == 0:
        return None
    sizes = np.bincount(groups)
    count = round(float(sizes.sum() ** 2 / np.square(sizes).sum()))
    return proportion(round(float(hits.mean() * count)), count, control)


def mean_against(
    values: np.ndarray, others: np.ndarray, groups: np.ndarray, rng: np.random.Generator, least: float = 0.0
) -> Measure | None:
    """Mean of values from ``least`` to 1 beside that of their pairs, the control; the interval is that of the paired
    difference, by a bootstrap of whole groups, about the control."""
    if len(values) == 0:
        return None
    sums, sizes = np.bincount(groups, values.astype(np.float64) - others), np.bincount(groups)
    sums, sizes = sums[sizes > 0], sizes[sizes > 0]
    drawn = rng.integers(len(sizes), size=(RESAMPLES, len(sizes)))
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1), [tail, 1 - tail]).tolist()
    control = float(np.mean(others, dtype=np.float64))
    value = float(np.mean(values, dtype=np.float64))
    return Measure(value, max(least, control + low), min(1.0, control + high), control, len(values))


def area(members: np.ndarray, others: np.ndarray) -> Measure | None:
    """Area under the ROC curve: how often a member scores higher than another; interval after DeLong et al. (1988).

    >>> found = area(np.array([3.0, 4.0]), np.array([1.0, 3.5]))
    >>> found is not None and found.value
    0.75
    """
    m, n = len(members), len(others)
    if m < 2 or n < 2:
        return None
    ranks = rankdata(np.concatenate([members, others]))
    above = (ranks[:m] - rankdata(members)) / n  # of each member, the share of others below it
    below = 1 - (ranks[m:] - rankdata(others)) / m
    value = float(above.mean())
    deviation = float(np.sqrt(above.var(ddof=1) / m + below.var(ddof=1) / n))
    width = float(norm.ppf((1 + CONFIDENCE) / 2)) * deviation
    return Measure(value, max(0.0, value - width), min(1.0, value + width), 0.5, m + n)


def hits_at(members: np.ndarray, others: np.ndarray, rate: float) -> Measure | None:
    """Share of members above the threshold that at most ``rate`` of the others exceed, with its interval.

    The threshold is a quantile of the others, and as uncertain as they are few: the control is the upper end of the
    interval of the share of others above it. None if there are too few others for such a rate.
    """
    if len(others) * rate < 1 or len(members) == 0:
        return None
    allowed = int(len(others) * rate)
    threshold = np.sort(others)[-allowed - 1]
    against = proportion(int((others > threshold).sum()), len(others), rate)
    found = proportion(int((members > threshold).sum()), len(members), rate)
    assert found is not None and against is not None
    return Measure(found.value, found.low, found.high, max(rate, against.high), len(members))
