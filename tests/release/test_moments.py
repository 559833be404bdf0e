import math

import numpy as np
import pytest
from scipy.stats import beta

from delome import Graph
from delome.release.gaussian import mu_of
from delome.release.moments import Shares, exact_moments, noise_radius, release_moments, symmetric
from delome.release.rows import projection, unit_rows

SHARES = Shares()


def scaled(moments, deviations):
    """The released statistics as one vector in units of their noise; off the diagonal each number counts once."""
    lower = np.tril_indices(len(moments.second), -1)
    return np.concatenate(
        [
            moments.sums.ravel() / deviations.sums,
            moments.counts / deviations.counts,
            np.diag(moments.second) / deviations.second,
            moments.second[lower] / (deviations.second / math.sqrt(2)),
        ]
    )


def test_moments_by_hand():
    rows = np.array([[1.0, 0.0], [0.0, 0.5], [0.6, 0.8]], dtype=np.float32)
    found = exact_moments(rows, np.array([7, 3, 7]), (3, 7))
    np.testing.assert_allclose(found.sums, [[0.0, 0.5], [1.6, 0.8]], atol=1e-6)
    assert found.counts.tolist() == [1.0, 2.0]
    np.testing.assert_allclose(found.second, [[1.36, 0.48], [0.48, 0.89]], atol=1e-6)


def test_shares_add_up_to_one_mechanism():
    deviations = Shares(0.5, 0.25, 0.25).deviations(2.0)
    np.testing.assert_allclose(deviations, [1 / (2 * math.sqrt(0.5)), 1.0, 1.0])
    assert sum(1 / each**2 for each in SHARES.deviations(0.7)) == pytest.approx(0.7**2)
    assert SHARES.deviations(math.inf) == (0, 0, 0)


@pytest.mark.parametrize("seed", range(3))
def test_removing_any_node_with_its_edges_moves_the_statistics_by_at_most_mu(seed):
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((25, 6)) * rng.exponential(10, size=(25, 1))
    features[3] = 0
    graph = Graph(rng.integers(25, size=(2, 80)), features, rng.integers(3, size=25))
    deviations, matrix = SHARES.deviations(mu := mu_of(4.0, 1e-5)), projection(seed, 6, 5)

    def statistics(part):
        return scaled(exact_moments(unit_rows(part.features, matrix), part.labels, (0, 1, 2)), deviations)

    whole = statistics(graph)
    moves = [
        np.linalg.norm(whole - statistics(graph.subgraph(np.delete(np.arange(25), node)))) / mu for node in range(25)
    ]
    assert max(moves) <= 1
    assert np.delete(moves, 3).min() > 0.999  # and no less: no noise is wasted
    assert moves[3] == pytest.approx(math.sqrt(SHARES.counts))  # a row of zeros is only counted


def test_noise_has_the_deviations_that_were_promised():
    rng = np.random.default_rng(0)
    deviations = Shares(0.5, 0.2, 0.3).deviations(0.5)
    none = np.zeros((0, 300), dtype=np.float32)
    found = release_moments(none, np.zeros(0, int), tuple(range(500)), deviations, rng.standard_normal)
    assert found.sums.std() == pytest.approx(deviations.sums, rel=0.02)
    assert found.counts.std() == pytest.approx(deviations.counts, rel=0.1)
    assert np.diag(found.second).std() == pytest.approx(deviations.second, rel=0.15)
    below = found.second[np.tril_indices(300, -1)]
    assert below.std() == pytest.approx(deviations.second / math.sqrt(2), rel=0.02)
    assert np.array_equal(found.second, found.second.T)
    radius = noise_radius(deviations.second, 300, 1)
    assert np.abs(np.linalg.eigvalsh(found.second)).max() == pytest.approx(radius, rel=0.1)


def test_noise_of_several_releases_has_the_radius_of_their_sum():
    rng = np.random.default_rng(1)
    total = sum(symmetric(rng.standard_normal((200, 200))) for _ in range(4))
    assert np.abs(np.linalg.eigvalsh(total)).max() == pytest.approx(noise_radius(1.0, 200, 4), rel=0.1)


def lower_bound(hits, trials, against, delta):
    """What (ε, δ) must at least be, at 95 % confidence, if a test hits so often of the trials with a node and
    ``against`` so often of those without."""
    often, seldom = beta.ppf(0.025, hits, trials - hits + 1), beta.ppf(0.975, against + 1, trials - against)
    return math.log(max(often - delta, 1e-12) / seldom)


@pytest.mark.parametrize(("weakened", "found_out"), [(1.0, False), (0.15, True)])
def test_the_best_attack_on_thousands_of_releases_finds_no_more_than_the_stated_epsilon(weakened, found_out):
    # with and without a canary; the likelihood ratio of the two Gaussians is the best there is to tell them apart
    epsilon, delta, trials = 1.0, 1e-5, 2000
    rng = np.random.default_rng(5)
    rows = unit_rows(rng.standard_normal((12, 3)))
    labels = rng.integers(2, size=12)
    stated = SHARES.deviations(mu_of(epsilon, delta))
    added = type(stated)(*(weakened * each for each in stated))

    def releases(count):
        for _ in range(trials):
            moments = release_moments(rows[:count], labels[:count], (0, 1), added, rng.standard_normal)
            yield scaled(moments, stated)

    kept = scaled(exact_moments(rows, labels, (0, 1)), stated)
    direction = kept - scaled(exact_moments(rows[:-1], labels[:-1], (0, 1)), stated)
    outputs = [np.array([release @ direction for release in releases(count)]) for count in (12, 11)]
    thresholds = np.quantile(np.concatenate(outputs), np.linspace(0.5, 0.99, 30))
    bounds = [
        lower_bound(int((outputs[0] > each).sum()), trials, int((outputs[1] > each).sum()), delta)
        for each in thresholds
    ]
    assert (max(bounds) > epsilon) == found_out
