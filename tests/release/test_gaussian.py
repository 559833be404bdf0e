import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from delome.release.gaussian import composed, delta_of, epsilon_of, mu_of

CASES = [(0.1, 1e-5), (1.0, 1e-5), (4.0, 1e-5), (8.0, 1e-6), (1.0, 0.1), (20.0, 1e-9)]


def hockey_stick(mu, epsilon):
    """δ by its definition: the integral of (p - e^ε q)₊ for outputs p = N(μ, 1) and q = N(0, 1) of two neighbours."""

    def excess(x):
        return max(0.0, norm.pdf(x, mu) - math.exp(epsilon) * norm.pdf(x))

    first = epsilon / mu + mu / 2  # where p = e^ε q
    return quad(excess, first, max(first, mu) + 12, epsabs=1e-16, limit=400)[0]


@pytest.mark.parametrize(("epsilon", "delta"), CASES)
def test_the_definition_holds_at_the_calibrated_mu_and_at_none_above(epsilon, delta):
    mu = mu_of(epsilon, delta)
    assert hockey_stick(mu, epsilon) == pytest.approx(delta, rel=1e-6)
    assert delta_of(mu, epsilon) <= delta < delta_of(1.001 * mu, epsilon)


def test_the_published_example():
    # noise for sensitivity 1 and (1, 1e-5): the classical bound √(2 log(1.25/δ))/ε asks for 4.845
    assert 1 / mu_of(1.0, 1e-5) == pytest.approx(3.7306, abs=1e-4)


@pytest.mark.parametrize(("epsilon", "delta"), CASES)
def test_epsilon_is_the_inverse(epsilon, delta):
    assert epsilon_of(mu_of(epsilon, delta), delta) == pytest.approx(epsilon, rel=1e-9)


def test_delta_without_epsilon_is_the_total_variation():
    assert delta_of(1.0, 0.0) == pytest.approx(2 * norm.cdf(0.5) - 1)
    assert epsilon_of(1.0, 0.5) == 0.0


def test_two_mechanisms_are_one_of_the_composed_mu():
    # δ of both outputs together, by its definition on a grid
    mus, epsilon = (0.8, 1.1), 1.5
    x = np.linspace(-9, 11, 2001)
    p, q = (np.outer(*(norm.pdf(x, mu * far) for mu in mus)) for far in (1, 0))
    found = np.maximum(0, p - math.exp(epsilon) * q).sum() * (x[1] - x[0]) ** 2
    assert found == pytest.approx(delta_of(composed(mus), epsilon), rel=1e-3)


def test_no_noise_is_no_privacy():
    assert mu_of(math.inf, 1e-5) == math.inf
    assert epsilon_of(math.inf, 1e-5) == math.inf
    assert delta_of(math.inf, 3.0) == 1.0
    assert delta_of(0.0, 3.0) == 0.0
