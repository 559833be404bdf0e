import numpy as np
from scipy.stats import kstest

from delome.release.noise import noise_from, secret_normal


def test_secret_noise_is_standard_normal_and_never_the_same():
    drawn = secret_normal((200, 100))
    assert drawn.shape == (200, 100)
    assert kstest(drawn.ravel(), "norm").pvalue > 1e-6
    assert not np.array_equal(drawn, secret_normal((200, 100)))


def test_secret_noise_is_independent_of_the_seed():
    assert not np.array_equal(noise_from("secret", 0, 0)((9,)), noise_from("secret", 0, 0)((9,)))


def test_noise_of_a_seed_repeats_and_differs_between_tasks():
    first, again, other = (noise_from("seed", 3, task)((5, 2)) for task in (0, 0, 1))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
