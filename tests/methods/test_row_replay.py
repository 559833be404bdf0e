import numpy as np
import pytest
import torch
from torch.nn import functional

from delome.methods import RowReplay


@pytest.mark.parametrize("memory", ["raw", "propagated", "kmeans"])
@pytest.mark.parametrize("weighing", ["plain", "balanced", "debiased"])
def test_every_memory_with_every_loss_remembers(toy_stream, memory, weighing):
    learner = RowReplay(budget=10, epochs=100, memory=memory, weighing=weighing)
    for task in toy_stream:
        learner.observe(task)
    assert np.mean(learner.evaluate(toy_stream)) > 90


@pytest.mark.parametrize("setting", ["cil", "til"])
@pytest.mark.parametrize("weighing", ["plain", "balanced", "debiased"])
def test_a_step_weighs_current_and_remembered_rows_as_asked(
    uneven_stream, last_step, memories_of, balanced, weighing, setting
):
    learner = RowReplay(budget=4, epochs=2, hidden=8, weight_decay=0.0, weighing=weighing, setting=setting)
    for task in uneven_stream[:2]:
        learner.observe(task)
    old = memories_of(learner)
    step = last_step(learner, uneven_stream[2])
    parts = [*map(step.memory_logits, old), step.train_logits(uneven_stream[2])]
    if weighing == "balanced" and setting == "cil":  # all rows are one group
        step.assert_minimises(balanced(*(torch.cat(each) for each in zip(*parts, strict=True))))
        return
    share = torch.bincount(torch.cat([labels for _, labels in parts])).float()
    adjustment = torch.log(share / share.sum()) if weighing == "debiased" else 0
    loss = balanced if weighing == "balanced" else functional.cross_entropy
    terms = []
    for task, (logits, labels) in enumerate(parts):
        used = slice(2 * task, 2 * task + 2) if setting == "til" else slice(0, 6)
        terms.append(loss((logits + adjustment)[:, used], labels - used.start))
    step.assert_minimises(*terms)
