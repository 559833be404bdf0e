from __future__ import annotations

import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from delome.errors import StateError
from delome.randomness import at_most, generator, normal, torch_generator, uniform


def first_draws(rng: np.random.Generator) -> tuple[int, ...]:
    return tuple(rng.integers(2**63, size=4).tolist())


def test_the_same_name_gives_the_same_draws() -> None:
    assert first_draws(generator(3, "batches", 1, 7)) == first_draws(generator(3, "batches", 1, 7))


def test_every_part_of_the_name_changes_the_draws() -> None:
    names = [
        (seed, purpose, indices)
        for seed in (0, 1, 2**40)
        for purpose in ("split", "init")
        for length in range(3)
        for indices in itertools.product((0, 1, 5), repeat=length)
    ]
    draws = {(seed, purpose, each): first_draws(generator(seed, purpose, *each)) for seed, purpose, each in names}
    collisions = [pair for pair in itertools.combinations(names, 2) if draws[pair[0]] == draws[pair[1]]]
    assert collisions == []


def test_global_random_states_are_left_alone() -> None:
    before = np.random.get_state(legacy=False)["state"]["key"].tolist(), torch.get_rng_state()  # noqa: NPY002
    uniform(generator(0, "init"), (10, 10), 1.0)
    assert np.random.get_state(legacy=False)["state"]["key"].tolist() == before[0]  # noqa: NPY002
    assert torch.equal(torch.get_rng_state(), before[1])


@pytest.mark.parametrize("bound", [1.0, 0.03])
def test_uniform_draws_stay_inside_the_bound_and_fill_it_evenly(bound: float) -> None:
    values = uniform(generator(0, "init"), (400, 500), bound)
    assert values.shape == (400, 500) and values.dtype == torch.float32
    assert values.abs().max() < bound
    assert values.abs().max() > 0.999 * bound
    # 200,000 draws: the standard errors of mean and variance are 0.0013 and 0.002 of the bound
    assert abs(values.mean()) < 0.006 * bound
    assert values.var().item() == pytest.approx(bound**2 / 3, rel=0.02)


def test_the_uniform_grid_is_symmetric_around_zero() -> None:
    magnitudes = uniform(generator(0, "init"), (100_000,), 32768.0).abs()
    assert torch.equal(magnitudes % 1, torch.full_like(magnitudes, 0.5))


def test_uniform_draws_follow_their_generator() -> None:
    draw = [uniform(generator(seed, "init"), (5,), 1.0) for seed in (0, 0, 1)]
    assert torch.equal(draw[0], draw[1])
    assert not torch.equal(draw[0], draw[2])


def test_normal_draws_have_the_deviation_that_was_asked_for() -> None:
    values = normal(generator(0, "init"), (400, 500), 0.03)
    assert values.shape == (400, 500) and values.dtype == torch.float32
    # 200,000 draws: the standard errors of mean and deviation are 0.0022 and 0.0016 of the deviation
    assert abs(values.mean()) < 0.01 * 0.03
    assert values.std().item() == pytest.approx(0.03, rel=0.008)
    # of a normal distribution 31.7 % lie beyond one deviation, and 4.6 % beyond two
    assert (values.abs() > 0.03).float().mean().item() == pytest.approx(0.3173, abs=0.005)
    assert (values.abs() > 0.06).float().mean().item() == pytest.approx(0.0455, abs=0.003)


def test_normal_draws_follow_their_generator() -> None:
    draw = [normal(generator(seed, "init"), (5,), 1.0) for seed in (0, 0, 1)]
    assert torch.equal(draw[0], draw[1])
    assert not torch.equal(draw[0], draw[2])


def test_random_tensors_follow_their_name() -> None:
    cpu = torch.device("cpu")
    names = [(0, "dropout", 1, 2), (0, "dropout", 1, 2), (1, "dropout", 1, 2), (0, "other", 1, 2), (0, "dropout", 1, 3)]
    draws = [torch.rand(4, generator=torch_generator(cpu, *name)) for name in names]
    assert torch.equal(draws[0], draws[1])
    assert not any(torch.equal(draws[0], other) for other in draws[2:])


@pytest.mark.parametrize("draw", [normal, uniform])
def test_no_more_weights_are_drawn_at_once_than_allowed(draw: Callable[..., torch.Tensor]) -> None:
    rng = generator(0, "init")
    with at_most(10):
        draw(rng, (2, 5), 1.0)
        draw(rng, (10,), 1.0)  # a network may draw its weights again
        with pytest.raises(StateError, match="a network of 12 weights is larger than what was saved of it"):
            draw(rng, (3, 4), 1.0)
    assert draw(rng, (3, 4), 1.0).shape == (3, 4)


def test_an_inner_limit_ends_with_its_block_also_after_an_error() -> None:
    rng = generator(0, "init")
    with at_most(10):
        with at_most(2), pytest.raises(StateError):
            uniform(rng, (3,), 1.0)
        with pytest.raises(KeyError), at_most(0):
            raise KeyError
        uniform(rng, (10,), 1.0)


def test_the_limit_of_one_thread_is_not_that_of_another() -> None:
    with at_most(1), ThreadPoolExecutor(1) as pool:
        assert pool.submit(uniform, generator(0, "init"), (100,), 1.0).result().shape == (100,)


@pytest.mark.parametrize("draw", [normal, uniform])
def test_nothing_is_allocated_for_more_numbers_than_memory_can_hold(draw: Callable[..., torch.Tensor]) -> None:
    with pytest.raises(MemoryError, match=r"1,152,921,504,606,846,976 random numbers do not fit in memory"):
        draw(generator(0, "init"), (2**30, 2**30), 1.0)
