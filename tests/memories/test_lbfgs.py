import pytest
import torch

from delome.memories import lbfgs
from delome.memories.lbfgs import minimise


def quadratic(curvatures, offset=0.0):
    """½ Σ λ x² + offset, counting how often it is asked."""
    calls = []

    def objective(point):
        calls.append(point.clone())
        return (curvatures * point**2).sum() / 2 + offset, curvatures * point

    return objective, calls


def test_the_first_step_is_the_gradient_over_the_curvature():
    objective, _ = quadratic(torch.tensor([1.0, 3.0]))
    reached, steps = minimise(objective, torch.tensor([4.0, 2.0]), 1, curvature=4.0)
    # 4 - 1 · 4/4 = 3 and 2 - 3 · 2/4 = 0.5
    assert reached.tolist() == [3.0, 0.5]
    assert steps == 1


def test_an_ill_conditioned_quadratic_is_minimised_in_a_few_steps(monkeypatch):
    monkeypatch.setattr(lbfgs, "STALL", 0.0)
    objective, _ = quadratic(torch.logspace(0, 3, 8, dtype=torch.float64).reshape(2, 4))
    reached, steps = minimise(objective, torch.ones(2, 4, dtype=torch.float64), 40, curvature=1000.0)
    assert reached.shape == (2, 4)
    assert reached.abs().max() < 1e-3
    assert steps <= 40


def test_a_second_step_along_one_direction_knows_its_curvature():
    objective, calls = quadratic(torch.tensor([2.0]), offset=1.0)
    reached, _ = minimise(objective, torch.tensor([6.0]), 2, curvature=8.0)
    # 6 - 12/8 = 4.5, from where the secant of a parabola leads to its minimum
    assert [call.item() for call in calls] == pytest.approx([6.0, 4.5, 0.0], abs=1e-5)
    assert reached.item() == pytest.approx(0.0, abs=1e-5)


def test_a_step_that_is_too_long_is_shortened_to_the_minimum_of_the_parabola():
    objective, calls = quadratic(torch.tensor([2.0]), offset=1.0)
    minimise(objective, torch.tensor([1.0]), 1, curvature=0.5)
    # 1 - 2/0.5 = -3 is worse; the parabola through 1 and -3 has its minimum a quarter of the way
    assert [call.item() for call in calls] == pytest.approx([1.0, -3.0, 0.0])


def test_it_ends_where_no_step_lowers_the_value():
    def flat(point):
        return torch.tensor(1.0), torch.ones_like(point)

    reached, steps = minimise(flat, torch.zeros(3), 10, curvature=1.0)
    assert steps == 0
    assert (reached == 0).all()


@pytest.mark.parametrize(("offset", "expected"), [(100.0, 5), (0.0, 20)])
def test_it_ends_when_five_iterations_lower_the_value_by_less_than_four_hundredths(offset, expected):
    objective, _ = quadratic(torch.logspace(0, 6, 30), offset)
    _, steps = minimise(objective, 1e-3 * torch.ones(30), 20, curvature=1e6)
    assert steps == expected


def test_it_ends_when_the_value_is_not_positive():
    objective, calls = quadratic(torch.tensor([1.0]), offset=-1.0)
    _, steps = minimise(objective, torch.tensor([1.0]), 10, curvature=1.0)
    assert steps == 0
    assert len(calls) == 1
