from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from delome.randomness import generator, uniform


def first_draws(rng: np.random.Generator) -> tuple[int, ...]:
    return tuple(rng.integers(2**63, size=4).tolist())


def test_the_same_name_gives_the_same_draws() -> None:
    assert first_draws(generator(3, "batches", 1, 7)) == first_draws(generator(3, "batches", 1, 7))


def test_every_part_of_the_name_changes_the_draws() -> None:
    names = [
        (seed, purpose, *indices)
        for seed in (0, 1, 2**40)
        for purpose in ("split", "init")
        for length in range(3)
        for indices in itertools.product((0, 1, 5), repeat=length)
    ]
    draws = {name: first_draws(generator(*name)) for name in names}
    collisions = [pair for pair in itertools.combinations(names, 2) if draws[pair[0]] == draws[pair[1]]]
    assert collisions == []


def test_global_random_states_are_left_alone() -> None:
    before = np.random.get_state()[1].tolist(), torch.get_rng_state()  # noqa: NPY002
    uniform(generator(0, "init"), (10, 10), 1.0)
    assert np.random.get_state()[1].tolist() == before[0]  # noqa: NPY002
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
