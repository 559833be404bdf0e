"""What every replay method must do with classes that come again, day after day."""

from typing import Any

import numpy as np
import pytest
import torch

from delome import PUMA, DeLoMe, Graph, TaskStream, load
from delome.errors import ParameterError, StateError
from delome.methods import METHODS, Replay
from delome.testing import Subject

SMALL: dict[str, Any] = {
    "epochs": 4,
    "networks": 3,
    "encoders": 3,
    "pretrain": 3,
    "budget": 4,
    "hidden": 16,
    "recurring": "merge",
}
MORE: dict[str, tuple[str, dict[str, Any]]] = {
    "delome, sampled": ("delome", {"memory": "gradient-matching"}),
    "delome, noise": ("delome", {"init": "noise", "kernel": "arc-cosine"}),
    "delome, propagated": ("delome", {"init": "propagated"}),
    "replay, raw": ("replay", {"memory": "raw"}),
    "replay, kmeans": ("replay", {"memory": "kmeans"}),
    "ssm-uniform, gcn": ("ssm-uniform", {"backbone": "gcn"}),
}
REPLAY: dict[str, tuple[str, dict[str, Any]]] = {
    name: (name, {}) for name, method in METHODS.items() if issubclass(method, Replay) and not method().memory.whole
}
VARIANTS = REPLAY | MORE


@pytest.fixture(params=VARIANTS)
def make(request):
    name, given = VARIANTS[request.param]
    return lambda **more: Subject(METHODS[name], "cil", given).make(**SMALL | more)


CENTRES = 2 * np.random.default_rng(0).normal(size=(6, 8))


def day(number, *labels, nodes=8):
    """Nodes of some classes, near the classes' centres, with edges inside classes."""
    rng = np.random.default_rng([number, nodes])
    truth = np.repeat(labels, nodes)
    same = [rng.choice(np.flatnonzero(truth == label), 2) for label in truth]
    edges = np.stack([np.repeat(np.arange(len(truth)), 2), np.concatenate(same)])
    return Graph(edges, CENTRES[truth] + 0.5 * rng.normal(size=(len(truth), 8)), truth, undirected=True)


def assert_same_state(a, b):
    assert a.values == b.values and a.tensors.keys() == b.tensors.keys()
    assert all(torch.equal(tensor, b.tensors[name]) for name, tensor in a.tensors.items())


def test_memory_stops_growing_and_classes_stay_known(make):
    learner, stored, seen = make(epochs=10, lr=0.02), [], np.zeros(6, dtype=int)
    if isinstance(learner, PUMA):
        learner = make(epochs=25, lr=0.02)  # its network is a new one every time
    for number in range(20):
        # classes 4 and 5 came on the first days only
        classes = (0, 1, 4, 5) if number < 2 else (number % 4, (number + 1) % 4)
        learner.observe(day(number, *classes))
        stored.append(learner.storage())
        seen[list(classes)] += 8
    labels = np.concatenate([memory.labels for memory in learner.bank.memories])
    assert np.bincount(labels).tolist() == [SMALL["budget"]] * 6
    # a subgraph memory may hold up to eleven nodes for each row
    largest = 6 * SMALL["budget"] * (11 if "subgraphs" in learner.family else 1)
    assert stored[-1].rows <= largest
    assert max(each.rows for each in stored[15:]) <= 1.3 * max(each.rows for each in stored[4:10])
    assert max(each.bytes for each in stored[15:]) <= 1.3 * max(each.bytes for each in stored[4:10])
    counts: dict[int | str, int] = {}
    for memory in learner.bank.memories:
        counts |= {learner.classes[column]: count for column, count in memory.stands_for.items()}
    assert counts == dict(enumerate(seen.tolist()))
    test = day(99, 0, 1, 2, 3, 4, 5, nodes=20)
    assert learner.score(test).balanced > 90


def test_without_merging_memory_grows(make):
    learner = make(recurring="append")
    for number in range(4):
        learner.observe(day(number, 0, 1))
    assert sum(len(memory.rows) for memory in learner.bank.memories) == 4 * 2 * SMALL["budget"]


def test_merging_is_appending_while_no_class_comes_again(make, toy_stream):
    merging, appending = make(), make(recurring="append")
    for task in toy_stream:
        merging.observe(task)
        appending.observe(task)
    assert_same_state(merging.state(), appending.state())


def test_state_is_all_that_is_carried_over(make, tmp_path):
    days = [day(0, 0, 1), day(1, 2, 3), day(2, 0, 1), day(3, 1, 2), day(4, 0, 5)]
    whole, resumed = make(), make()
    for graph in days:
        whole.observe(graph)
        resumed.save(tmp_path)
        resumed = load(tmp_path)
        resumed.observe(graph)
    assert_same_state(resumed.state(), whole.state())
    assert [memory.task for memory in whole.bank.memories] == [1, 3, 4]
    assert (resumed.predict(days[0]) == whole.predict(days[0])).all()


def test_bags_of_words_are_merged_too(make, sparse_graph):
    learner = make(epochs=30)
    for number in range(3):
        # a third of the nodes are labelled each time
        known = np.arange(120) % 3 == number
        learner.observe(sparse_graph.with_labels(np.where(known, sparse_graph.labels, -1)))
    (memory,) = learner.bank.memories
    times = 3 if learner.learns_from == "all nodes" else 1  # nodes whose label is guessed count too
    assert (memory.task, memory.stands_for) == (2, dict.fromkeys(range(4), times * 30))
    assert np.bincount(memory.labels).tolist() == [SMALL["budget"]] * 4
    assert learner.score(sparse_graph).balanced > 90


def test_an_interrupted_merge_is_forgotten(make):
    learner, twin = make(), make()
    for each in (learner, twin):
        each.observe(day(0, 0, 1))
    before = learner.state()

    begin = learner.begin

    def interrupted(*arguments):
        training = begin(*arguments)
        finish = training.finish

        def merge_and_fail():
            finish()
            raise KeyboardInterrupt

        training.finish = merge_and_fail
        return training

    learner.begin = interrupted
    with pytest.raises(KeyboardInterrupt):
        learner.observe(day(1, 1, 2))
    learner.begin = begin
    assert_same_state(learner.state(), before)
    for each in (learner, twin):
        each.observe(day(1, 1, 2))
    assert_same_state(learner.state(), twin.state())


@pytest.mark.parametrize("name", REPLAY)
def test_each_task_needs_rows_of_its_own_in_til(name):
    with pytest.raises(ParameterError, match="recurring=merge works in setting cil only: in til each task needs rows"):
        METHODS[name](setting="til", recurring="merge")


@pytest.mark.parametrize(
    "damage",
    [
        lambda memory: memory[0].update(task=1),
        lambda memory: memory[0].update(task=3),
        lambda memory: memory[0].update(task=-1),
        lambda memory: memory[0].update(task="0"),
        lambda memory: memory[0].update(stands_for=[3, 8]),
        lambda memory: memory[0].update(stands_for=[8]),
        lambda memory: memory[0].update(stands_for=[8, 8, 8]),
        lambda memory: memory[0].update(stands_for=[8, 1.5]),
        lambda memory: memory.reverse(),
        lambda memory: memory.pop(0),
    ],
)
def test_a_bank_that_cannot_be_is_not_loaded(damage):
    learner = DeLoMe(budget=4, epochs=2, hidden=8, recurring="merge")
    for number, classes in enumerate([(0, 1), (2, 3), (2, 4)]):
        learner.observe(day(number, *classes))
    state = learner.state()
    assert [each["task"] for each in state.values["memory"]] == [0, 1, 2]
    damage(state.values["memory"])
    with pytest.raises(StateError):
        DeLoMe(budget=4, epochs=2, hidden=8, recurring="merge").load_state(state)


def test_a_bank_with_gaps_needs_merging():
    learner = DeLoMe(budget=4, epochs=2, hidden=8, recurring="merge")
    for number in range(2):
        learner.observe(day(number, 0, 1))
    with pytest.raises(StateError, match="2 tasks are known, 1 memories kept"):
        DeLoMe(budget=4, epochs=2, hidden=8).load_state(learner.state())


def test_a_stream_is_learned_too(toy_graph):
    learner = DeLoMe(budget=4, epochs=20, hidden=16, recurring="merge")
    for task in TaskStream(toy_graph):
        learner.observe(task)
    learner.observe(toy_graph.with_labels(np.where(toy_graph.labels < 2, toy_graph.labels, -1)))
    assert [memory.task for memory in learner.bank.memories] == [1, 2, 3]
    assert np.mean(learner.evaluate(TaskStream(toy_graph))) > 90
