"""What EWC minimises; what it shares with other penalties is tested with them."""

import pytest

from delome.methods import EWC

QUIET = {"epochs": 4, "hidden": 8, "lr": 0.05, "weight_decay": 0.0}


def used_columns(setting, task):
    return slice(2 * task.index if setting == "til" else 0, 2 * task.index + 2)


@pytest.mark.parametrize("setting", ["cil", "til"])
def test_ewc_adds_strength_times_the_weighted_squared_distance_from_each_old_optimum(
    uneven_stream, last_step, snapshot, balanced, setting
):
    def task_loss(network, task):
        logits, labels = network.train_logits(task)
        used = used_columns(setting, task)
        return balanced(logits[:, used], labels - used.start)

    learner = EWC(strength=300.0, setting=setting, **QUIET)
    old = []
    for task in uneven_stream[:2]:
        learner.observe(task)
        optimum = snapshot(learner)
        old.append((optimum.weights, optimum.gradient(task_loss(optimum, task))))
    step = last_step(learner, uneven_stream[2])
    current = task_loss(step, uneven_stream[2])
    penalty = sum(
        (slopes[name].square() * (weight - optimum[name].detach()).square()).sum()
        for optimum, slopes in old
        for name, weight in step.weights.items()
    )
    step.assert_minimises(current, 300 * penalty)
