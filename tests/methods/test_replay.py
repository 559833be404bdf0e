import numpy as np
import pytest
import torch
from torch.nn import functional

from delome.errors import ParameterError
from delome.graph.sparse import to_dense
from delome.losses import LOSSES, Balanced
from delome.memories import MEMORIES, Centroids
from delome.methods import METHODS, Replay
from delome.parameters import has_parameter
from delome.testing import Subject

SMALL = {"budget": 4, "epochs": 1, "hidden": 8, "encoders": 3, "networks": 3}
REPLAYS = [name for name, method in METHODS.items() if issubclass(method, Replay)]


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("loss", LOSSES)
def test_every_memory_with_every_loss_remembers(toy_stream, memory, loss):
    subject = Subject(Replay, "cil", {"memory": memory, "loss": loss})
    learner = subject.learned(toy_stream, budget=10, epochs=100, networks=50, encoders=100)
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


@pytest.mark.parametrize("name", REPLAYS)
def test_another_seed_remembers_other_rows(uneven_stream, memories_of, name):
    method = METHODS[name]

    def remembered(seed):
        learner = method(seed=seed, **{key: value for key, value in SMALL.items() if has_parameter(method, key)})
        learner.observe(uneven_stream[0])
        (memory,) = memories_of(learner)
        return to_dense(memory.graph.features)[memory.rows]

    first, same, other = map(remembered, (1, 1, 2))
    np.testing.assert_array_equal(first, same)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("name", REPLAYS)
def test_every_task_is_remembered_by_draws_of_its_own(uneven_graph, memories_of, name):
    method = METHODS[name]
    learner = method(**{key: value for key, value in SMALL.items() if has_parameter(method, key)})
    labelled = uneven_graph.with_labels(np.where(uneven_graph.labels < 2, uneven_graph.labels, -1))
    learner.observe(labelled)
    learner.observe(labelled)
    first, second = (to_dense(memory.graph.features)[memory.rows] for memory in memories_of(learner))
    assert not np.array_equal(first, second)


@pytest.mark.parametrize("wrong", [{"memory": Balanced()}, {"loss": Centroids()}, {"backbone": Centroids()}])
def test_parts_of_another_kind_are_refused(wrong):
    (name,) = wrong
    with pytest.raises(ParameterError, match=rf"{name} must be a (memory|loss|backbone) or the name of one, not "):
        Replay(**wrong)
