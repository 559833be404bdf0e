"""What MAS minimises; what it shares with other penalties is tested with them."""

import pytest
import torch

from delome.methods import MAS

QUIET = {"epochs": 4, "hidden": 8, "lr": 0.05, "weight_decay": 0.0}


def used_columns(setting, task):
    return slice(2 * task.index if setting == "til" else 0, 2 * task.index + 2)


@pytest.mark.parametrize("setting", ["cil", "til"])
def test_mas_adds_strength_times_the_weighted_squared_distance_from_the_last_optimum(
    uneven_stream, last_step, snapshot, balanced, setting
):
    learner = MAS(strength=300.0, setting=setting, **QUIET)
    importance: dict[str, torch.Tensor] = {}
    rows = 0
    for task in uneven_stream[:2]:
        learner.observe(task)
        optimum = snapshot(learner)
        logits, labels = optimum.train_logits(task)
        slopes = optimum.gradient(logits[:, used_columns(setting, task)].square().mean())
        for name, slope in slopes.items():
            importance[name] = (rows * importance.get(name, torch.tensor(0.0)) + len(labels) * slope.square()) / (
                rows + len(labels)
            )
        rows += len(labels)
    step = last_step(learner, uneven_stream[2])
    used = used_columns(setting, uneven_stream[2])
    logits, labels = step.train_logits(uneven_stream[2])
    current = balanced(logits[:, used], labels - used.start)
    penalty = sum(
        (importance[name] * (weight - optimum.weights[name].detach()).square()).sum()
        for name, weight in step.weights.items()
    )
    step.assert_minimises(current, 300 * penalty)
