import numpy as np
import pytest
import torch
from torch.nn import functional

from delome import Graph, TaskStream
from delome.methods import CaT

SMALL = {"budget": 5, "encoders": 10, "hidden": 16, "encoder_width": 32}


def learn(learner, stream, count=3):
    for task in list(stream)[:count]:
        learner.observe(task)
    return learner


@pytest.mark.parametrize("setting", ["cil", "til"])
def test_it_trains_on_all_condensed_rows_with_one_plain_loss_over_all_classes_seen(toy_stream, setting, begun):
    learner = CaT(epochs=2, setting=setting, **SMALL)
    batch = begun(learner, toy_stream, 1)
    assert len(batch) == 20
    rows = torch.cat([torch.from_numpy(m.graph.features) for m in learner._next.memories])
    logits = ((rows @ learner.network.first).relu() @ learner.network.second)[:, :4]
    torch.testing.assert_close(learner.objective(batch), functional.cross_entropy(logits, batch.labels))


def test_without_training_in_memory_current_nodes_and_old_memories_share_one_mean(toy_stream, begun):
    learner = CaT(epochs=2, train_in_memory=False, **SMALL)
    batch = begun(learner, toy_stream, 1)
    assert len(batch) == len(toy_stream[1].train)
    old = learner.bank.memories[0]
    logits = torch.cat([learner.network(batch.inputs), learner.network(learner.network.prepare(old.graph))])[:, :4]
    labels = torch.cat([batch.labels, torch.from_numpy(old.labels)])
    torch.testing.assert_close(learner.objective(batch), functional.cross_entropy(logits, labels))


def test_once_condensed_real_labels_and_features_do_not_matter(toy_stream, toy_graph):
    learner = CaT(epochs=3, **SMALL)
    learner.observe(toy_stream[0])
    other = CaT(epochs=3, **SMALL)
    other.remember = lambda observation, tracker: learner.bank
    noise = np.random.default_rng(0).standard_normal(toy_graph.features.shape)
    other.observe(TaskStream(Graph(np.zeros((2, 0), int), noise, toy_graph.labels))[0])
    for a, b in zip(learner.network.parameters(), other.network.parameters(), strict=True):
        assert torch.equal(a, b)


def test_both_settings_train_alike_and_differ_only_in_evaluation(toy_stream):
    cil, til = (learn(CaT(epochs=5, setting=setting, **SMALL), toy_stream) for setting in ("cil", "til"))
    for a, b in zip(cil.network.parameters(), til.network.parameters(), strict=True):
        assert torch.equal(a, b)
    for narrow, wide in zip(til.evaluate(toy_stream), cil.evaluate(toy_stream), strict=True):
        assert narrow >= wide
