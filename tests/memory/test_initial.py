import numpy as np
import pytest

from delome.memory.initial import initial_weights
from delome.sparse import to_dense


def weights(kind: str, rows: int, budget: int, seed: int = 0) -> np.ndarray:
    return to_dense(initial_weights(kind, rows, budget, np.random.default_rng(seed)))


def test_noise_has_the_mean_and_covariance_of_the_rows():
    real = np.random.default_rng(1).standard_normal((12, 3)) * [1, 2, 5] + [3, 0, -1]
    noise = np.concatenate([weights("noise", 12, 12, seed) @ real for seed in range(4000)])
    np.testing.assert_allclose(noise.mean(axis=0), real.mean(axis=0), atol=0.1)
    np.testing.assert_allclose(np.cov(noise.T, bias=True), np.cov(real.T, bias=True), rtol=0.05, atol=0.2)


@pytest.mark.parametrize("kind", ["raw", "propagated"])
def test_nodes_are_distinct_single_rows(kind):
    chosen = weights(kind, 9, 4)
    assert chosen.shape == (4, 9)
    assert (np.sort(chosen, axis=1)[:, -1] == 1).all()
    assert (chosen.sum(axis=1) == 1).all()
    assert (chosen.sum(axis=0) <= 1).all()


def test_mixtures_average_distinct_rows_and_are_nobodys_row():
    mixed = weights("mixture", 30, 20)
    assert ((mixed > 0).sum(axis=1) == 5).all()
    np.testing.assert_allclose(mixed.sum(axis=1), 1, atol=1e-6)
    assert mixed.max() < 1
    assert ((mixed > 0).sum(axis=0) >= 1).all()


@pytest.mark.parametrize("kind", ["raw", "propagated", "noise", "mixture"])
@pytest.mark.parametrize(("rows", "budget", "expected"), [(1, 5, 1), (3, 5, 3), (50, 5, 5)])
def test_there_are_never_more_rows_than_the_class_has(kind, rows, budget, expected):
    assert weights(kind, rows, budget).shape == (expected, rows)


STAND_FOR = np.array([1.0, 7.0, 1.0, 91.0, 0.01])


@pytest.mark.parametrize("kind", ["propagated", "mixture", "noise"])
def test_rows_that_stand_for_many_count_as_many(kind):
    rng = np.random.default_rng(0)
    # a choice without replacement hardly differs from one with it
    stand_for = np.append(np.ones(98), [6.0, 3.0])
    weights = [to_dense(initial_weights(kind, 100, 6, rng, stand_for)) for _ in range(1500)]
    mean = np.mean(weights, axis=(0, 1))
    assert mean.sum() == pytest.approx(1, abs=1e-4)
    expected = stand_for / stand_for.sum()
    loose = 0.25
    assert mean[98] == pytest.approx(expected[98], rel=loose) and mean[99] == pytest.approx(expected[99], rel=loose)
    assert mean[:98].mean() == pytest.approx(expected[0], rel=loose)


def test_weighted_noise_has_the_weighted_mean_and_covariance():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(5, 2))
    probability = STAND_FOR / STAND_FOR.sum()
    draws = np.concatenate([initial_weights("noise", 5, 5, rng, STAND_FOR) @ rows for _ in range(4000)])
    mean = probability @ rows
    np.testing.assert_allclose(draws.mean(axis=0), mean, atol=0.01)
    covariance = (rows - mean).T @ (probability[:, None] * (rows - mean))
    np.testing.assert_allclose(np.cov(draws.T), covariance, atol=0.02)


@pytest.mark.parametrize("kind", ["propagated", "mixture"])
def test_weighted_rows_are_chosen_without_repeating_one(kind):
    weights = to_dense(initial_weights(kind, 5, 5, np.random.default_rng(0), STAND_FOR))
    assert weights.shape == (5, 5)
    np.testing.assert_allclose(weights.sum(axis=1), 1, rtol=1e-6)
    if kind == "propagated":
        assert (weights.sum(axis=0) == 1).all()
    else:
        assert ((weights > 0).sum(axis=1) == 5).all()
