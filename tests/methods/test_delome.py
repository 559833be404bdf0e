import numpy as np
import pytest
import torch

from delome import DeLoMe
from delome.errors import ParameterError
from delome.memories import MemoryBank
from delome.progress import Tracker

QUICK = {"budget": 20, "epochs": 60, "networks": 60}
MATCHINGS = pytest.mark.parametrize("matching", ["exact", "sampled"])


@pytest.mark.parametrize("setting", ["cil", "til"])
@pytest.mark.parametrize("backbone", ["sgc", "gcn"])
@MATCHINGS
def test_old_tasks_are_remembered(toy_stream, setting, backbone, matching):
    learner = DeLoMe(setting=setting, backbone=backbone, matching=matching, **QUICK)
    for task in toy_stream:
        learner.observe(task)
    assert np.mean(learner.evaluate(toy_stream)) > 95


@MATCHINGS
def test_memory_does_not_depend_on_the_model(toy_stream, matching):
    short, long = (DeLoMe(matching=matching, **QUICK | other) for other in ({"epochs": 1}, {"epochs": 30, "lr": 0.1}))
    for learner in (short, long):
        learner.observe(toy_stream[0])
        learner.observe(toy_stream[1])
    for a, b in zip(short.bank.memories, long.bank.memories, strict=True):
        np.testing.assert_array_equal(a.graph.features, b.graph.features)


def test_raw_logit_memories_of_cil_and_til_coincide(toy_stream):
    learners = [DeLoMe(setting=setting, matching="sampled", match_loss="nll", **QUICK) for setting in ("cil", "til")]
    for learner in learners:
        learner.observe(toy_stream[0])
    for a, b in zip(*(learner.bank.memories for learner in learners), strict=True):
        np.testing.assert_array_equal(a.graph.features, b.graph.features)


def test_counts_are_memory_rows_for_old_classes_and_training_nodes_for_new_ones(toy_stream):
    learner = DeLoMe(**QUICK | {"epochs": 1, "networks": 1})
    learner.observe(toy_stream[0])
    learner.observe(toy_stream[1])
    current = np.bincount(toy_stream[1].graph.labels[toy_stream[1].train], minlength=4)
    assert learner.counts.tolist() == [20, 20, *current[2:].tolist()]


def test_loss_of_a_step_is_current_mean_plus_a_mean_for_each_memory(toy_stream):
    learner = DeLoMe(**QUICK | {"epochs": 1, "networks": 1})
    for task in toy_stream:
        learner.observe(task)
    observation = toy_stream[2].observation()
    current = learner.examples(observation)
    bank, learner.bank = learner.bank, MemoryBank()
    for memory in bank.memories[:2]:
        learner.bank.append(memory)
    learner.counts = torch.bincount(current.labels, minlength=6)
    learner.begin(observation, current, Tracker())
    adjustment = torch.log(learner.counts / learner.counts.sum())

    def mean_loss(rows, labels):
        logits = (rows @ learner.network.first).relu() @ learner.network.second
        return torch.nn.functional.cross_entropy(logits + adjustment, labels)

    expected = mean_loss(current.inputs.dense(), current.labels)
    for memory in learner.bank.memories:
        expected = expected + mean_loss(torch.from_numpy(memory.graph.features), torch.from_numpy(memory.labels))
    torch.testing.assert_close(learner.objective(current), expected)


def test_exact_memories_of_cil_and_til_coincide(toy_stream):
    learners = [DeLoMe(setting=setting, **QUICK) for setting in ("cil", "til")]
    for learner in learners:
        learner.observe(toy_stream[0])
    for a, b in zip(*(learner.bank.memories for learner in learners), strict=True):
        np.testing.assert_array_equal(a.graph.features, b.graph.features)


def test_exact_matching_cannot_start_from_raw_rows():
    with pytest.raises(ParameterError, match="starts in propagated space"):
        DeLoMe(init="raw")


@MATCHINGS
def test_the_report_says_how_lossless_the_memory_is(toy_stream, matching):
    learner = DeLoMe(matching=matching, **QUICK)
    learner.observe(toy_stream[0])
    losses = learner.report()["relative_loss"]
    assert len(losses) == 2
    assert all(0 < loss < 1 for loss in losses)
