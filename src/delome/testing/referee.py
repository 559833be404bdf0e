"""The referee's questions: does a method know anything that a class-incremental learner may not know?

A prediction may depend on a node, its neighbourhood and what was learned. It must not depend on which other nodes are
asked about at the same time, on the rest of the graph, on how nodes are numbered, on labels of test nodes, or on graphs
of the past. What is
learned may depend on features of test nodes only where they are propagated to training nodes.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from delome.graph import Graph, disjoint_union
from delome.graph.sparse import to_dense
from delome.learning import Learner
from delome.metrics import Score
from delome.streams.task_stream import TaskStream
from delome.streams.tasks import Task
from delome.testing.subject import Subject, same_state

ROUNDING = 0.02
"""Share of predictions that may change because sums are rounded differently."""

EPOCHS = 40
"""Enough to learn classes that overlap."""


def asked_one_by_one(subject: Subject) -> None:
    """a node's prediction does not depend on the nodes that are asked about with it"""
    stream = subject.overlapping()
    learner = subject.learned(stream, epochs=EPOCHS)
    for task in stream:
        graph, nodes = task.graph, task.test
        together = learner.scores(graph, nodes, task=task.index)
        alone = np.concatenate([learner.scores(graph, nodes[k : k + 1], task=task.index) for k in range(len(nodes))])
        order = np.random.default_rng(0).permutation(len(nodes))
        shuffled = learner.scores(graph, nodes[order], task=task.index)
        company = learner.scores(graph, np.concatenate([nodes, task.train]), task=task.index)[: len(nodes)]
        _assert_same(learner, task, together, alone, "one by one")
        _assert_same(learner, task, together[order], shuffled, "in another order", order)
        _assert_same(learner, task, together, company, "together with training nodes")


def asked_with_other_tasks(subject: Subject) -> None:
    """a node's prediction does not depend on nodes of other tasks that are asked about with it"""
    stream = subject.overlapping()
    learner = subject.learned(stream, epochs=EPOCHS)
    for task in stream:
        others = [other for other in stream if other.index != task.index]
        graphs = [task.graph, *(other.graph for other in others)]
        starts = np.cumsum([graph.num_nodes for graph in graphs])
        strangers = np.concatenate([start + other.test for start, other in zip(starts, others, strict=False)])
        union = disjoint_union(graphs).hidden()
        among_themselves = learner.scores(union, task.test, task=task.index)
        # outnumbered, and with a few: a method that decides on one task for all nodes decides otherwise in one of them
        for company in (strangers, strangers[:: len(strangers) // max(1, len(task.test) // 4)]):
            asked = np.concatenate([task.test, company])
            mixed = learner.scores(union, asked, task=task.index)
            how = f"together with {len(company)} nodes of other tasks"
            _assert_same(learner, task, among_themselves, mixed[: len(task.test)], how)
            best = np.array(learner.classes)[mixed.argmax(axis=1)]
            other = float((learner.predict(union, asked, task=task.index) != best).mean())
            assert other <= ROUNDING, f"{100 * other:.0f} % of predictions {how} are not the best score"


def accuracy_is_that_of_predictions(subject: Subject) -> None:
    """the accuracy that is reported is that of the predictions"""
    stream = subject.stream()
    learner = subject.learned(stream)
    for task, score in zip(stream, learner.score(stream), strict=True):
        labels = task.graph.user_labels
        assert labels is not None
        found = Score.of(learner.predict(task.graph, task.test, task=task.index), labels[task.test])
        assert score == found, f"{score.balanced:.1f} % are reported on task {task.index}, {found.balanced:.1f} % right"
    assert learner.evaluate(stream) == [score.balanced for score in learner.score(stream)], "evaluate is not score"


def asked_in_another_graph(subject: Subject) -> None:
    """a node's prediction does not depend on parts of the graph that it is not connected with"""
    stream = subject.overlapping()
    learner = subject.learned(stream, epochs=EPOCHS)
    graphs = [task.graph for task in stream]
    for task in stream:
        own = graphs[task.index]
        others = [graph for index, graph in enumerate(graphs) if index != task.index]
        apart = learner.scores(own, task.test, task=task.index)
        beside = learner.scores(disjoint_union([own, *others]).hidden(), task.test, task=task.index)
        _assert_same(learner, task, apart, beside, "beside nodes of other tasks")


def numbered_otherwise(subject: Subject) -> None:
    """a node's prediction does not depend on the numbers that nodes have in the graph"""
    stream = subject.overlapping()
    # neighbours that are drawn when a node is asked about (HPNs) are drawn by its number: these do without
    learner = subject.learned(stream, epochs=EPOCHS, neighbours_first=0, neighbours_second=0)
    for task in stream:
        order = np.random.default_rng(task.index).permutation(task.graph.num_nodes)
        number = np.argsort(order)
        graph = task.graph.hidden()
        first = learner.scores(graph, task.test, task=task.index)
        second = learner.scores(graph.subgraph(order), number[task.test], task=task.index)
        _assert_same(learner, task, first, second, "numbered otherwise")


def test_labels_do_not_matter(subject: Subject) -> None:
    """labels of validation and test nodes change nothing, neither while learning nor in predictions"""
    true, wrong = subject.stream(), subject.stream()
    for task in wrong:
        labels = task.graph.labels
        assert labels is not None
        held_out = np.concatenate([task.val, task.test])
        labels[held_out] = np.random.default_rng(0).choice(task.classes, len(held_out))
    learners = [subject.learned(stream) for stream in (true, wrong)]
    assert same_state(learners[0].state(), learners[1].state()), "labels of held-out nodes were read while learning"
    for first, second in zip(true, wrong, strict=True):
        predicted = [learners[0].predict(task.graph, task.test, task=task.index) for task in (first, second)]
        assert (predicted[0] == predicted[1]).all(), "predictions depend on labels of the nodes that are asked about"


def test_features_reach_over_edges_alone(subject: Subject) -> None:
    """what is learned does not depend on features of test nodes that no edge joins to other nodes"""
    graph = subject.graph()
    tests = [task.nodes[task.test] for task in TaskStream(graph)]
    nodes = np.concatenate(tests)
    edges = np.stack(graph.adjacency.nonzero())
    edges = edges[:, ~np.isin(edges, nodes).any(axis=0)]
    chains = np.concatenate([np.stack([each[:-1], each[1:]]) for each in tests], axis=1)
    features = to_dense(graph.features)
    others = features.copy()
    others[nodes] = np.random.default_rng(0).normal(5, 3, (len(nodes), features.shape[1]))  # of another sign and size
    for among_themselves, how in (
        (chains[:, :0], "that have no neighbours"),
        (chains, "that have no other neighbours"),
    ):
        given = np.concatenate([edges, among_themselves], axis=1)
        streams = [TaskStream(Graph(given, each, graph.labels)) for each in (features, others)]
        first, second = (subject.learned(stream).state() for stream in streams)
        assert same_state(first, second), f"features of test nodes {how} were read while learning"


def _assert_same(
    learner: Learner, task: Task, expected: np.ndarray, found: np.ndarray, how: str, order: np.ndarray | None = None
) -> None:
    predicted = [np.array(learner.classes)[scores.argmax(axis=1)] for scores in (expected, found)]
    changed = float((predicted[0] != predicted[1]).mean())
    labels = task.graph.user_labels
    assert labels is not None
    truth = labels[task.test if order is None else task.test[order]]
    right = [100 * float((each == truth).mean()) for each in predicted]
    assert changed <= ROUNDING, (
        f"{100 * changed:.0f} % of the predictions on task {task.index} change: "
        f"{right[0]:.1f} % are right asked together, {right[1]:.1f} % {how}"
    )


QUESTIONS: tuple[Callable[[Subject], None], ...] = (
    asked_one_by_one,
    asked_with_other_tasks,
    asked_in_another_graph,
    numbered_otherwise,
    accuracy_is_that_of_predictions,
    test_labels_do_not_matter,
    test_features_reach_over_edges_alone,
)
"""What the referee asks. (Graphs of the past are closed by the observation itself.)"""

OF_BATCHES = (asked_one_by_one, asked_with_other_tasks, asked_in_another_graph)
"""What a method cannot pass that judges batches of nodes, and says so."""

OF_ALL_NODES = (test_features_reach_over_edges_alone,)
"""What a method cannot pass that learns from all nodes, and says so."""
