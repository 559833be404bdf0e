import numpy as np
import pytest
import torch
from torch.nn import functional

from delome.methods import Replay


@pytest.mark.parametrize("memory", ["raw", "propagated", "kmeans"])
@pytest.mark.parametrize("loss", ["plain", "balanced", "debiased"])
def test_every_memory_with_every_loss_remembers(toy_stream, memory, loss):
    learner = Replay(budget=10, epochs=100, memory=memory, loss=loss)
    for task in toy_stream:
        learner.observe(task)
    assert np.mean(learner.evaluate(toy_stream)) > 90


@pytest.mark.parametrize("setting", ["cil", "til"])
@pytest.mark.parametrize("loss", ["plain", "balanced", "debiased"])
def test_a_step_weighs_current_and_remembered_rows_as_asked(
    uneven_stream, last_step, memories_of, balanced, loss, setting
):
    learner = Replay(budget=4, epochs=2, hidden=8, weight_decay=0.0, loss=loss, setting=setting)
    for task in uneven_stream[:2]:
        learner.observe(task)
    old = memories_of(learner)
    step = last_step(learner, uneven_stream[2])
    parts = [*map(step.memory_logits, old), step.train_logits(uneven_stream[2])]
    if loss == "balanced" and setting == "cil":  # all rows are one group
        step.assert_minimises(balanced(*(torch.cat(each) for each in zip(*parts, strict=True))))
        return
    share = torch.bincount(torch.cat([labels for _, labels in parts])).float()
    adjustment = torch.log(share / share.sum()) if loss == "debiased" else 0
    group_loss = balanced if loss == "balanced" else functional.cross_entropy
    terms = []
    for task, (logits, labels) in enumerate(parts):
        used = slice(2 * task, 2 * task + 2) if setting == "til" else slice(0, 6)
        terms.append(group_loss((logits + adjustment)[:, used], labels - used.start))
    step.assert_minimises(*terms)
