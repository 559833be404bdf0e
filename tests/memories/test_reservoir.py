import numpy as np
import pytest

from delome import ER, Graph, TaskStream, load_graph
from delome.memories.reservoir import kept_of_new
from delome.testing.subject import same_state


@pytest.fixture(scope="module")
def graph():
    return load_graph("synthetic", nodes=200, classes=4, features=4, imbalance=4)


def rows_kept(graph, seed, budget=5):
    """The training nodes of the whole graph that a learner remembers, of tasks in their order."""
    learner, stream = ER(budget=budget, epochs=1, hidden=2, seed=seed), TaskStream(graph)
    for task in stream:
        learner.observe(task)
    return learner, [len(memory.rows) for memory in learner.bank.memories]


def test_all_rows_stay_while_there_is_room():
    rng = np.random.default_rng(0)
    assert kept_of_new(10, 4, 6, rng) == 6
    assert kept_of_new(10, 0, 30, rng) == 10


def test_new_rows_stay_in_proportion_to_their_number():
    rng = np.random.default_rng(0)
    counts = [kept_of_new(10, 30, 90, rng) for _ in range(2000)]
    # hypergeometric: mean 10 · 90 / 120, variance 10 · ¾ · ¼ · 110 / 119
    assert np.mean(counts) == pytest.approx(7.5, abs=0.1)
    assert np.var(counts) == pytest.approx(10 * 0.75 * 0.25 * 110 / 119, rel=0.15)


def test_the_memory_is_as_large_as_it_may_be_and_holds_tasks_in_proportion(graph):
    stream = TaskStream(graph)
    sizes = np.array([len(task.train) for task in stream])
    shares = []
    for seed in range(30):
        learner, kept = rows_kept(graph, seed)
        assert sum(kept) == 5 * 4
        assert sum(sum(memory.stands_for.values()) for memory in learner.bank.memories) == sizes.sum()
        shares.append(kept[0])
    assert np.mean(shares) == pytest.approx(20 * sizes[0] / sizes.sum(), abs=1.0)


def test_with_live_data_free_places_are_for_new_rows():
    learner = ER(budget=5, epochs=1, hidden=2)
    for label, count in ((0, 100), (1, 20), (2, 20)):
        learner.observe(Graph([[0], [1]], np.random.default_rng(label).random((count, 4)), [label] * count))
        assert sum(len(memory.rows) for memory in learner.bank.memories) == 5 * (label + 1)


def test_rows_are_propagated_rows_of_training_nodes_and_none_is_there_twice(graph):
    learner, _ = rows_kept(graph, 0, budget=3)
    for memory, task in zip(learner.bank.memories, TaskStream(graph), strict=True):
        rows = task.graph.propagate(2)
        assert task.graph.labels is not None
        known = {tuple(row): label for row, label in zip(rows[task.train], task.graph.labels[task.train], strict=True)}
        found = [tuple(row) for row in memory.graph.features]
        assert len(set(found)) == len(found)
        assert [known[row] for row in found] == memory.labels.tolist()


def test_it_may_forget_a_rare_class_and_is_still_loaded(graph):
    labels = graph.labels.copy()
    labels[np.flatnonzero(labels == 0)[3:]] = 1  # three nodes of class 0, one to learn from
    learner = ER(budget=1, epochs=1, hidden=2)
    for task in TaskStream(graph.with_labels(labels)):
        learner.observe(task)
    assert len({int(label) for memory in learner.bank.memories for label in memory.labels}) < 4
    again = ER(budget=1, epochs=1, hidden=2)
    again.load_state(learner.state())
    assert same_state(again.state(), learner.state())


def test_a_class_that_comes_again_takes_no_more_room(graph):
    learner = ER(budget=2, epochs=1, hidden=2)
    for number in range(4):
        learner.observe(graph.with_labels(np.where(np.arange(200) % 4 == number, graph.labels, -1)))
        assert learner.storage().rows == 8
