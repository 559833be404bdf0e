import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from delome import AGEM, FineTune
from delome.methods.agem import agreeing

VECTORS = st.lists(st.floats(-10, 10, width=32), min_size=3, max_size=3).map(torch.tensor)


def test_what_agrees_is_left_as_it_is():
    gradient = torch.tensor([1.0, 2.0])
    assert agreeing(gradient, torch.tensor([3.0, -1.0])) is gradient
    assert agreeing(gradient, torch.zeros(2)) is gradient


def test_what_disagrees_is_taken_out():
    # g·r = -4, r·r = 8: g + r / 2
    assert agreeing(torch.tensor([-2.0, 0.0]), torch.tensor([2.0, 2.0])).tolist() == [-1.0, 1.0]


@given(VECTORS, VECTORS)
def test_the_loss_of_remembered_rows_does_not_rise_and_the_change_is_the_smallest(gradient, reference):
    changed = agreeing(gradient, reference)
    scale = 1 + float(gradient.norm() * reference.norm())
    assert float(changed @ reference) >= -1e-4 * scale
    if changed is not gradient:
        # what was taken out is along the reference, and no more than needed
        assert abs(float(changed @ reference)) <= 1e-4 * scale
        other = changed - gradient
        assert float(other @ reference) == pytest.approx(float(other.norm() * reference.norm()), rel=1e-3, abs=1e-3)


def first_gradient(learner, task, before):
    """Gradient of the first step: Adam's first moment is a tenth of it."""
    return {
        name.removesuffix(".exp_avg"): 10 * (tensor - 0.9 * before[name])
        for name, tensor in learner.state().tensors.items()
        if name.endswith(".exp_avg")
    }


def test_a_step_follows_the_projected_gradient(uneven_stream):
    """The step of A-GEM from the same weights is that of Fine-tune, projected by the gradient on the memory."""
    options = {"hidden": 8, "epochs": 1, "batch_size": None, "weight_decay": 0.0, "passes": True}
    agem = AGEM(budget=100, replayed=None, **options)
    agem.observe(uneven_stream[0])
    plain = FineTune(**options)
    plain.observe(uneven_stream[0])
    before = {name: tensor for name, tensor in agem.state().tensors.items() if name.endswith(".exp_avg")}
    rows = agem.bank.examples(agem.network)
    logits = agem.network(rows.inputs)[:, :4]
    weights = 1 / torch.bincount(rows.labels)[rows.labels]
    loss = (torch.nn.functional.cross_entropy(logits, rows.labels, reduction="none") * weights).sum() / 2
    names = [name for name, _ in agem.network.named_parameters()]
    reference = torch.cat([each.flatten() for each in torch.autograd.grad(loss, list(agem.network.parameters()))])
    for learner in (agem, plain):
        learner.observe(uneven_stream[1])
    found, own = (first_gradient(each, uneven_stream[1], before) for each in (agem, plain))
    flat = {
        key: torch.cat([each[f"adam.{name}"].flatten() for name in names]) for key, each in (("a", found), ("o", own))
    }
    assert flat["o"] @ reference < 0  # a new task does disagree
    torch.testing.assert_close(flat["a"], agreeing(flat["o"], reference), rtol=1e-3, atol=1e-5)


def test_it_forgets_less_than_fine_tune_when_the_task_is_known(uneven_stream):
    learners = [kind(epochs=60, hidden=16, setting="til", lr=0.02) for kind in (AGEM, FineTune)]
    for learner in learners:
        for task in uneven_stream:
            learner.observe(task)
    kept, lost = (sum(learner.evaluate(uneven_stream)) for learner in learners)
    assert kept >= lost
