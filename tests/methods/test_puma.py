from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional

from delome import Graph, TaskStream, load_graph
from delome.backbones import BACKBONES
from delome.memories import Context, DistributionMatching, RepeatedDistributionMatching
from delome.methods import PUMA, CaT
from delome.parameters import values_of
from delome.progress import Checkpoint, Tracker
from delome.randomness import generator
from delome.testing.subject import same_state

SMALL = {"budget": 5, "hidden": 16, "epochs": 30, "lr": 0.01}
SAMPLED = SMALL | {"encoders": 4, "encoder_width": 8, "encoder_updates": 2}


def learn(learner, stream, count=3):
    for task in list(stream)[:count]:
        learner.observe(task)
    return learner


def features_of(memory):
    return memory.graph.features, memory.labels


def test_defaults_are_the_papers():
    learner = PUMA()
    assert (learner.epochs, learner.lr, learner.weight_decay, learner.batch_size) == (500, 1e-3, 5e-4, None)
    assert learner.confidence == 0
    assert values_of(learner.memory) == {
        "budget": 60,
        "encoders": "exact",
        "lr": 1e-3,
        "encoder_width": 4096,
        "encoder_updates": 10,
        "encoder_hops": None,
    }


@pytest.mark.parametrize("confidence", [1.0, 1.5])
@pytest.mark.parametrize("parameters", [SMALL, SAMPLED], ids=["exact", "sampled"])
def test_without_guesses_that_count_the_memory_is_that_of_plain_condensation(
    uneven_stream, memories_of, confidence, parameters
):
    # no probability of overlapping classes rounds to 1
    memory = RepeatedDistributionMatching()
    guessing, plain = PUMA(confidence=confidence, **parameters), CaT(memory=memory, **parameters)
    for learner in (guessing, plain):
        learn(learner, uneven_stream)
    for one, two in zip(memories_of(guessing), memories_of(plain), strict=True):
        assert all(np.array_equal(*each) for each in zip(features_of(one), features_of(two), strict=True))
        assert one.stands_for == two.stands_for


@pytest.mark.parametrize("setting", ["cil", "til"])
@pytest.mark.parametrize("share", [0.0, 0.5])
@pytest.mark.parametrize("index", [0, 1])
def test_a_class_is_its_training_nodes_and_those_that_a_network_takes_for_it(memories_of, setting, share, index):
    stream = TaskStream(load_graph("synthetic", nodes=160, classes=6, features=8, noise=8, homophily=0.5))
    before = learn(PUMA(setting=setting, **SMALL), stream, index)
    task = stream[index]

    def with_confidence(confidence):
        learner = replace(before, confidence=confidence)
        learner.load_state(before.state())
        learner.observe(task)
        return learner

    # with the memories of the training nodes alone, what is trained is the network that guesses
    guesser = with_confidence(2.0)
    others = np.sort(np.concatenate([task.val, task.test]))
    guessed, probability = guesser.predict_with_probability(task.graph, others, task=index)
    of_task = np.isin(guessed, task.classes)
    assert of_task.all() == (index == 0 or setting == "til")
    confidence = float(np.quantile(probability, share, method="higher"))
    chosen = of_task & (probability >= confidence)
    assert (chosen.sum() < of_task.sum()) == (share > 0)
    whole = task.observation()
    whole.train, whole.labels = (
        np.concatenate([task.train, others[chosen]]),
        np.concatenate([task.graph.labels[task.train], guessed[chosen]]),
    )
    context = Context(guesser.network, guesser.columns, generator(0, "memory", index), Tracker())
    expected = DistributionMatching(budget=5).build(whole, context)
    (*_, found) = memories_of(with_confidence(confidence))
    assert np.array_equal(found.labels, expected.labels)
    np.testing.assert_array_equal(found.graph.features, expected.graph.features)
    assert list(found.stands_for.values()) == np.bincount(whole.labels)[list(task.classes)].tolist()


@pytest.mark.parametrize("setting", ["cil", "til"])
def test_a_step_minimises_one_mean_over_all_condensed_rows_and_all_classes_seen(
    uneven_stream, last_step, memories_of, setting
):
    parameters = SMALL | {"epochs": 2, "confidence": 2.0}
    learner = learn(PUMA(setting=setting, weight_decay=0.0, **parameters), uneven_stream, 1)
    step = last_step(learner, uneven_stream[1])
    logits, labels = (torch.cat(each) for each in zip(*map(step.memory_logits, memories_of(learner)), strict=True))
    assert len(logits) == 20
    step.assert_minimises(functional.cross_entropy(logits[:, :4], labels))


@pytest.mark.parametrize("backbone", list(BACKBONES))
def test_logits_without_edges_are_those_of_rows_that_are_their_only_neighbours(uneven_stream, memories_of, backbone):
    learner = learn(PUMA(backbone=backbone, **SMALL), uneven_stream, 1)
    (memory,) = memories_of(learner)
    nodes = np.arange(memory.graph.num_nodes)
    loops = Graph(np.stack([nodes, nodes]), memory.graph.features)
    apart, looped = (learner.network(learner.network.prepare(graph)) for graph in (memory.graph, loops))
    torch.testing.assert_close(apart, looped)


def test_what_a_task_leaves_does_not_depend_on_the_network_before_it(uneven_stream):
    learner = learn(PUMA(**SMALL), uneven_stream, 1)
    state = learner.state()
    for name, tensor in state.tensors.items():
        if not name.startswith("memory"):
            tensor.zero_()
    other = PUMA(**SMALL)
    other.load_state(state)
    assert other.evaluate(uneven_stream[:1]) != learner.evaluate(uneven_stream[:1])
    for each in (learner, other):
        each.observe(uneven_stream[1])
    assert same_state(learner.state(), other.state())


@pytest.mark.parametrize("index", [0, 1])
def test_the_network_that_guesses_is_not_the_one_that_is_trained_in_the_end(uneven_stream, monkeypatch, index):
    learner, other = (learn(PUMA(**SMALL), uneven_stream, index) for _ in range(2))
    learner.observe(uneven_stream[index])
    monkeypatch.setattr(other, "remembered", lambda observation, tracker: learner.bank)  # nothing is guessed
    other.observe(uneven_stream[index])
    assert same_state(learner.state(), other.state())


def test_every_task_starts_from_a_network_of_its_own(uneven_stream):
    still = {"lr": 1e-12, "epochs": 1}
    first, second = (learn(PUMA(**SMALL | still), uneven_stream, count).network for count in (1, 2))
    assert not torch.allclose(*(next(network.parameters()) for network in (first, second)))


@pytest.mark.parametrize("inductive", [True, False])
def test_features_of_test_nodes_matter_unless_the_protocol_is_inductive(uneven_graph, inductive):
    streams = [TaskStream(uneven_graph, inductive=inductive)]
    features = uneven_graph.features.copy()
    features[np.concatenate([task.nodes[task.test] for task in streams[0]])] += 1
    edges = np.stack(uneven_graph.adjacency.nonzero())
    streams.append(TaskStream(Graph(edges, features, uneven_graph.labels), inductive=inductive))
    first, second = (learn(PUMA(**SMALL), stream).state() for stream in streams)
    assert same_state(first, second) == inductive


class Phases:
    """Keeps what was reached after every step of every phase; ends a process by an error after so many of them."""

    def __init__(self, end_after, earlier=()):
        self.end_after, self.reached_so_far = end_after, dict(earlier)

    def found(self, phase):
        return self.reached_so_far.get(phase)

    def reached(self, phase, done, total, seconds, save):
        self.reached_so_far[phase] = Checkpoint(done, seconds, save())
        self.end_after -= 1
        if not self.end_after:
            raise InterruptedError


def test_interrupted_in_either_stage_it_ends_as_if_it_was_not(uneven_stream):
    parameters = SAMPLED | {"epochs": 3}
    whole = learn(PUMA(**parameters), uneven_stream, 2).state()
    known = learn(PUMA(**parameters), uneven_stream, 1).state()
    phases = ["first memory"] * 4 + ["first train"] * 3 + ["memory"] * 4 + ["train"] * 3
    for steps, phase in enumerate(phases, start=1):
        ended = Phases(steps)
        learner = PUMA(**parameters)
        learner.load_state(known)
        with pytest.raises(InterruptedError):
            learner.observe(uneven_stream[1], Tracker(ended))
        assert list(ended.reached_so_far)[-1] == phase
        learner.observe(uneven_stream[1], Tracker(Phases(0, ended.reached_so_far)))
        assert same_state(learner.state(), whole)
