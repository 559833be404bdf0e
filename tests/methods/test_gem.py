import itertools

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


@pytest.mark.parametrize("agreement", [[1.0, 6.0], [1e-4, 1e-4], [0.0, 0.1]])
def test_a_gradient_that_agrees_however_little_is_untouched(agreement):
    gradient = torch.tensor(agreement)
    assert project(gradient, torch.eye(2), 0.5) is gradient


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


def projected_by_trial(gradient, old, margin):
    """g + Gᵀv for the v ≥ margin that minimises ½ vᵀ(G Gᵀ + εI)v + (G g)ᵀv: tries every set of v above the margin."""
    gram, linear = old @ old.T + DAMPING * np.eye(len(old)), old @ gradient
    best, least = None, np.inf
    for above in itertools.product([False, True], repeat=len(old)):
        free = np.array(above)
        v = np.full(len(old), margin)
        v[free] = np.linalg.solve(gram[free][:, free], -linear[free] - gram[free][:, ~free] @ v[~free])
        value = v @ gram @ v / 2 + linear @ v
        if (v >= margin).all() and value < least:
            best, least = v, value
    return gradient + best @ old


def flat(gradients):
    return torch.cat([part.flatten() for part in gradients.values()]).double().numpy()


@pytest.mark.parametrize("setting", ["cil", "til"])
@pytest.mark.parametrize("margin", [0.0, 0.5])
def test_a_step_is_along_the_gradient_projected_against_those_of_stored_nodes(
    uneven_stream, last_step, balanced, setting, margin
):
    learner = GEM(epochs=2, hidden=8, lr=0.05, weight_decay=0.0, stored=6, margin=margin, setting=setting)
    for task in uneven_stream[:2]:
        learner.observe(task)
    step = last_step(learner, uneven_stream[2])
    columns = {
        task.index: slice(2 * task.index if setting == "til" else 0, 2 * task.index + 2) for task in uneven_stream
    }

    def gradient_of(task, nodes):
        # an old task's loss is over the columns that were known when it was learned
        used = columns[task.index]
        labels = torch.from_numpy(task.graph.labels[nodes]) - used.start
        return step.gradient(balanced(step.logits(task.graph, nodes)[:, used], labels))

    old = [
        flat(gradient_of(task, task.train[learner.state().tensors[f"stored.{task.index}"].numpy()]))
        for task in uneven_stream[:2]
    ]
    raw = gradient_of(uneven_stream[2], uneven_stream[2].train)
    parts = np.split(projected_by_trial(flat(raw), np.array(old), margin), [raw["first"].numel()])
    expected = {name: torch.from_numpy(part).view_as(raw[name]).float() for name, part in zip(raw, parts, strict=True)}
    assert step.distance(expected) < 1e-3
    assert step.distance(raw) > 0.05


def test_an_odd_number_of_stored_nodes_is_rounded_up_to_the_same_for_every_class(toy_stream):
    learner = GEM(epochs=1, hidden=8, stored=5)
    learner.observe(toy_stream[0])
    assert len(learner.positions[0]) == 6
