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
def test_a_step_minimises_one_mean_over_all_condensed_rows_and_all_classes_seen(
    uneven_stream, last_step, memories_of, setting
):
    learner = learn(CaT(epochs=2, setting=setting, weight_decay=0.0, **SMALL), uneven_stream, 1)
    step = last_step(learner, uneven_stream[1])
    rows = torch.cat([torch.from_numpy(memory.graph.features) for memory in memories_of(learner)])
    labels = torch.cat([torch.from_numpy(memory.labels) for memory in memories_of(learner)])
    assert len(rows) == 20
    logits = (rows @ step.weights["first"]).relu() @ step.weights["second"]
    step.assert_minimises(functional.cross_entropy(logits[:, :4], labels))


@pytest.mark.parametrize("setting", ["cil", "til"])
def test_without_training_in_memory_current_nodes_and_old_memories_share_one_mean(
    uneven_stream, last_step, memories_of, setting
):
    learner = learn(CaT(epochs=2, train_in_memory=False, weight_decay=0.0, setting=setting, **SMALL), uneven_stream, 2)
    old = memories_of(learner)
    step = last_step(learner, uneven_stream[2])
    parts = [step.train_logits(uneven_stream[2]), *map(step.memory_logits, old)]
    step.assert_minimises(functional.cross_entropy(*(torch.cat(each) for each in zip(*parts, strict=True))))


@pytest.mark.parametrize("hops", [0, 1, 2])
def test_condensed_rows_match_the_features_after_as_many_hops_as_the_encoder_sees(uneven_stream, memories_of, hops):
    parameters = SMALL | {"encoders": 300, "encoder_width": 256, "memory_lr": 0.01}
    (memory,) = memories_of(learn(CaT(epochs=1, encoder_hops=hops, **parameters), uneven_stream, 1))
    task = uneven_stream[0]
    encoder = torch.from_numpy(np.random.default_rng(9).standard_normal((8, 4096)).astype(np.float32))

    def means(rows, labels):
        embedded = functional.normalize((torch.from_numpy(rows) @ encoder).relu())
        return torch.stack([embedded[labels == column].mean(dim=0) for column in (0, 1)])

    learned = means(memory.graph.features, memory.labels)
    labels = task.graph.labels[task.train]
    distances = [(means(task.graph.propagate(k)[task.train], labels) - learned).norm().item() for k in range(4)]
    assert np.argmin(distances) == hops
    assert distances[hops] < 0.5 * sorted(distances)[1]


def test_the_step_size_of_matching_is_memory_lr(uneven_stream, memories_of):
    start, short, long = (
        memories_of(learn(CaT(epochs=1, memory_lr=lr, **SMALL | {"encoders": 1}), uneven_stream, 1))[0].graph.features
        for lr in (1e-12, 0.01, 0.03)
    )
    # the first step of Adam has the length of its step size in every entry that has a gradient
    assert np.median(np.abs(short - start)) == pytest.approx(0.01, rel=1e-3)
    np.testing.assert_allclose(long - start, 3 * (short - start), atol=1e-4)


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
