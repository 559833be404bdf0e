"""The Gaussian mechanism, calibrated exactly.

Noise N(0, σ²I) on a statistic of sensitivity Δ is (ε, δ)-differentially private exactly if (Balle and Wang, 2018)

    δ ≥ Φ(μ/2 - ε/μ) - e^ε Φ(-μ/2 - ε/μ)        with μ = Δ/σ

so that μ alone decides. Several such mechanisms on the same data are together one with μ² = Σ μᵢ² (Dong, Roth and Su,
2022): there is nothing to gain from a cleverer composition, and nothing is lost.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from scipy.optimize import brentq
from scipy.special import erfcx, ndtr

INFINITE = "inf"
"""What no noise at all is called where only JSON has words."""


def delta_of(mu: float, epsilon: float) -> float:
    """The smallest δ for which a Gaussian mechanism of this μ is (ε, δ)-private.

    >>> round(delta_of(1.0, 1.0), 6)
    0.126937
    """
    if mu == 0:
        return 0.0
    if math.isinf(mu):
        return 1.0
    half, share = mu / 2, epsilon / mu
    # e^ε Φ(-half - share), without the large numbers that would cancel: ε = 2 · half · share
    rest = 0.5 * math.exp(-(half - share) * (half - share) / 2) * float(erfcx((half + share) / math.sqrt(2)))
    return max(0.0, float(ndtr(half - share)) - rest)


def mu_of(epsilon: float, delta: float) -> float:
    """The largest μ that is (ε, δ)-private.

    >>> round(mu_of(1.0, 0.126937), 4)
    1.0
    """
    if math.isinf(epsilon):
        return math.inf
    high = 1.0
    while delta_of(high, epsilon) <= delta:
        high *= 2
    low = high
    while delta_of(low, epsilon) > delta:
        low /= 2
    found = float(brentq(lambda mu: delta_of(mu, epsilon) - delta, low, high, xtol=1e-300, rtol=1e-14))
    while delta_of(found, epsilon) > delta:  # rounding must not spend more than was stated
        found *= 1 - 1e-13
    return found


def epsilon_of(mu: float, delta: float) -> float:
    """The smallest ε for which a Gaussian mechanism of this μ is (ε, δ)-private.

    >>> round(epsilon_of(mu_of(4.0, 1e-5), 1e-5), 9)
    4.0
    """
    if math.isinf(mu):
        return math.inf
    if delta_of(mu, 0.0) <= delta:
        return 0.0
    high = 1.0
    while delta_of(mu, high) > delta:
        high *= 2
    return float(brentq(lambda epsilon: delta_of(mu, epsilon) - delta, 0.0, high, xtol=1e-12))


def composed(mus: Iterable[float]) -> float:
    """μ of several Gaussian mechanisms on the same data.

    >>> composed([3.0, 4.0])
    5.0
    """
    return math.hypot(*mus)
