import numpy as np
import pytest
import torch

from delome import FineTune
from delome.methods import GEM
from delome.methods.gem import DAMPING, project


@pytest.mark.parametrize(("margin", "expected"), [(0.5, [0.5, 0.5]), (0.0, [0.500250, 0.499750])])
def test_projection_has_the_hand_computed_value(margin, expected):
    result = project(torch.tensor([1.0, 0.0]), torch.tensor([[-1.0, 1.0]]), margin)
    torch.testing.assert_close(result, torch.tensor(expected), atol=1e-6, rtol=0)


def test_a_gradient_that_agrees_is_untouched():
    gradient = torch.tensor([1.0, 2.0])
    assert project(gradient, torch.tensor([[1.0, 0.0], [0.0, 3.0]]), 0.5) is gradient


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("margin", [0.0, 0.5])
def test_the_multipliers_satisfy_the_kkt_conditions(seed, margin):
    generator = torch.Generator().manual_seed(seed)
    old = torch.randn(5, 40, generator=generator, dtype=torch.float64)
    gradient = torch.randn(40, generator=generator, dtype=torch.float64) - old.mean(dim=0)
    change = project(gradient, old, margin) - gradient
    v = torch.linalg.lstsq(old.T, change[:, None]).solution[:, 0]
    residual = (old @ old.T + DAMPING * torch.eye(5)) @ v + old @ gradient
    assert (v >= margin - 1e-8).all()
    assert (residual >= -1e-6).all()
    assert ((residual * (v - margin)).abs() < 1e-6).all()


def test_without_margin_no_old_loss_rises_to_first_order():
    generator = torch.Generator().manual_seed(0)
    old, gradient = torch.randn(4, 50, generator=generator), torch.randn(50, generator=generator)
    assert (old @ project(gradient - 2 * old.sum(dim=0), old, 0.0)).min() > -0.1


def test_the_first_task_is_fine_tune_to_the_bit(toy_stream):
    learners = [FineTune(epochs=5, hidden=16), GEM(epochs=5, hidden=16)]
    for learner in learners:
        learner.observe(toy_stream[0])
    for a, b in zip(*(learner.network.parameters() for learner in learners), strict=True):
        assert torch.equal(a, b)


def test_stored_nodes_are_distinct_and_spread_over_classes(toy_stream):
    learner = GEM(epochs=1, stored=10)
    learner.observe(toy_stream[0])
    (positions,) = learner.positions
    assert len(np.unique(positions)) == 10
    labels = toy_stream[0].graph.labels[toy_stream[0].train][positions]
    assert np.bincount(labels).tolist() == [5, 5]


def test_old_gradient_is_that_of_the_loss_on_stored_nodes_over_columns_known_then(toy_stream):
    learner = GEM(epochs=2, hidden=8, stored=6)
    learner.observe(toy_stream[0])
    learner.observe(toy_stream[1])
    task = toy_stream[0]
    nodes = task.train[learner.positions[0]]
    learner._old = [learner.examples(task.observation()).select(learner.positions[0])]
    rows = torch.from_numpy(task.graph.propagate(2)[nodes])
    logits = ((rows @ learner.network.first).relu() @ learner.network.second)[:, :2]
    loss = torch.nn.functional.cross_entropy(logits, torch.from_numpy(task.graph.labels[nodes]))
    expected = torch.autograd.grad(loss, list(learner.network.parameters()))
    torch.testing.assert_close(learner._old_gradient(0), torch.cat([part.flatten() for part in expected]))
