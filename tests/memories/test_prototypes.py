import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from delome.memories import prototypes
from delome.memories.prototypes import PrototypeTable, Trained, normalise


def table_of(*rows):
    return PrototypeTable(Trained(torch.tensor(rows, dtype=torch.float32)))


def directions(*degrees):
    angles = torch.tensor(degrees, dtype=torch.float32).deg2rad()
    return torch.stack([angles.cos(), angles.sin()], dim=1)


def random_directions(rng, count, dimension):
    return normalise(torch.from_numpy(rng.standard_normal((count, dimension)).astype(np.float32)))


def test_normalising_a_zero_vector_gives_zero_and_a_finite_gradient():
    vectors = torch.tensor([[0.0, 0.0], [3.0, 4.0], [1e-30, 0.0]], requires_grad=True)
    unit = normalise(vectors)
    torch.testing.assert_close(unit[:2], torch.tensor([[0.0, 0.0], [0.6, 0.8]]))
    unit.sum().backward()
    assert vectors.grad is not None and torch.isfinite(vectors.grad).all()


def test_steps_are_those_of_sgd_with_nesterov_momentum():
    rng = np.random.default_rng(0)
    start, *gradients = (torch.from_numpy(rng.standard_normal((3, 2))) for _ in range(5))
    expected = torch.nn.Parameter(start.clone())
    optimizer = torch.optim.SGD([expected], lr=0.1, momentum=0.9, nesterov=True, weight_decay=1e-4)
    trained = Trained(start.clone())
    for gradient in gradients:
        expected.grad = gradient.clone()
        optimizer.step()
        trained.step(gradient, lr=0.1)
    torch.testing.assert_close(trained.value, expected, atol=1e-12, rtol=1e-12)


def test_a_step_of_some_rows_equals_a_step_of_all_there_and_changes_no_other_row():
    rng = np.random.default_rng(0)
    start, gradient = (torch.from_numpy(rng.standard_normal((4, 2))) for _ in range(2))
    every, some = Trained(start.clone()), Trained(start.clone())
    for _ in range(2):
        every.step(gradient, lr=0.1)
        some.step(gradient, lr=0.1, rows=torch.tensor([0, 2]))
    for tensors in ((every.value, some.value), (every.momentum, some.momentum)):
        assert torch.equal(tensors[0][[0, 2]], tensors[1][[0, 2]])
    assert torch.equal(some.value[[1, 3]], start[[1, 3]])
    assert not some.momentum[[1, 3]].any()


def test_new_entries_have_no_momentum_and_old_ones_keep_theirs():
    trained = Trained(torch.ones(2, 2))
    trained.step(torch.ones(2, 2), lr=0.1)
    before = trained.momentum.clone()
    trained.grow(torch.ones(1, 2))
    assert torch.equal(trained.momentum, torch.cat([before, torch.zeros(1, 2)])) and before.all()


def test_only_matched_prototypes_are_trained():
    table = table_of([2.0, 0.0], [0.0, 3.0], [-1.0, 0.0])
    _, numbers = table.match(directions(100, 80, 10))
    assert numbers.tolist() == [1, 1, 0]
    (gradient,) = torch.autograd.grad(table[numbers].square().sum() + table[numbers].sum(), table.rows.value)
    before = table.rows.value.detach().clone()
    table.step(gradient, 0.1, numbers)
    assert (table.rows.value[:2] != before[:2]).any(dim=1).all()
    assert torch.equal(table.rows.value[2], before[2])


def test_the_length_of_a_prototype_does_not_matter():
    table = table_of([0.1, 0.0], [0.0, 100.0])
    cosines, numbers = table.match(directions(30, 60))
    assert numbers.tolist() == [0, 1]
    torch.testing.assert_close(cosines, torch.full((2,), math.cos(math.radians(30))))


def test_of_equally_near_prototypes_the_first_is_taken():
    table = table_of([1.0, 0.0], [1.0, 0.0], [0.0, 1.0])
    numbers = table.match(directions(0))[1]
    assert numbers.tolist() == [0]
    assert table[numbers].tolist() == [[1.0, 0.0]]


@pytest.mark.parametrize("at_once", [1, 7, 2**18])
def test_matching_in_portions_changes_nothing(monkeypatch, at_once):
    rng = np.random.default_rng(0)
    queries, rows = random_directions(rng, 20, 3), random_directions(rng, 5, 3)
    expected = (queries @ rows.T).max(dim=1)
    monkeypatch.setattr(prototypes, "COSINES_AT_ONCE", at_once)
    cosines, numbers = PrototypeTable(Trained(rows)).match(queries)
    torch.testing.assert_close(cosines, expected.values)
    assert torch.equal(numbers, expected.indices)


@pytest.mark.parametrize("at_once", [1, 7, 2**18])
def test_new_prototypes_are_those_without_a_later_neighbour(monkeypatch, at_once):
    monkeypatch.setattr(prototypes, "COSINES_AT_ONCE", at_once)
    table = table_of([1.0, 0.0])
    # 10° is matched; 90° and 100° are close, the later one stays; 120° is close to 100° and comes last
    numbers = table.establish([directions(10, 90, 180, 100, 120)], threshold=0.2)
    torch.testing.assert_close(table.rows.value.detach(), directions(0, 180, 120))
    assert numbers.tolist() == [0, 2, 1, 2, 2]


def test_no_prototype_is_made_beyond_the_largest_distance():
    rng = np.random.default_rng(0)
    table = PrototypeTable(Trained(random_directions(rng, 1, 4)))
    opposite = -table[torch.tensor([0])].detach()
    for _ in range(20):
        table.establish([random_directions(rng, 50, 4), opposite], threshold=2)
    assert len(table) == 1


def test_an_embedding_opposite_to_all_prototypes_becomes_one():
    table = table_of([1.0, 0.0])
    assert table.establish([directions(180)], threshold=0.2).tolist() == [1]


def test_two_orthogonal_embeddings_far_from_the_first_prototype_become_two():
    table = table_of([0.3, 0.3, 0.0])
    table.establish([torch.tensor([[0.0, 0.0, 1.0], [-1.0, 0.0, 0.0]])], threshold=0.2)
    assert len(table) == 3


def test_identical_embeddings_make_one_prototype_whatever_their_group():
    table = table_of([1.0, 0.0])
    numbers = table.establish([directions(90, 90), directions(90)], threshold=0.2)
    assert len(table) == 2
    assert numbers.tolist() == [1, 1, 1]


def test_zero_embeddings_make_no_prototype():
    table = table_of([1.0, 0.0])
    assert table.establish([torch.zeros(3, 2)], threshold=0.2).tolist() == [0, 0, 0]
    assert len(table) == 1


@given(st.integers(0, 2**32), st.integers(1, 4), st.integers(1, 40))
def test_prototypes_of_a_plane_that_do_not_move_are_at_most_nine(seed, groups, size):
    # any two are at least 36.9° apart, and 360 / 36.9 = 9.8
    rng = np.random.default_rng(seed)
    table = PrototypeTable(Trained(random_directions(rng, 1, 2)))
    for _ in range(30):
        table.establish([random_directions(rng, size, 2) for _ in range(groups)], threshold=0.2)
    assert len(table) <= 9
    cosines = normalise(table.rows.value) @ normalise(table.rows.value).T
    assert (cosines.fill_diagonal_(-1) < 0.8 + 1e-6).all()


def test_established_numbers_are_those_of_a_fresh_match():
    rng = np.random.default_rng(0)
    table = PrototypeTable(Trained(random_directions(rng, 1, 5)))
    for _ in range(10):
        groups = [random_directions(rng, 30, 5) for _ in range(3)]
        numbers = table.establish(groups, threshold=0.2)
        assert torch.equal(numbers, table.match(torch.cat(groups))[1])
