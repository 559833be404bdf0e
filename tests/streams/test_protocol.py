"""In which graph nodes are learned, and in which they are asked about."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from delome import FineTune, Graph, Joint, TaskStream
from delome.errors import StreamError
from delome.streams import Protocol
from delome.testing.subject import same_state


@pytest.fixture
def graph() -> Graph:
    """Four classes of ten nodes in a ring: every node has a neighbour of the class before and of the one after it."""
    labels = np.arange(40) % 4
    around = np.arange(40)
    return Graph(np.stack([around, np.roll(around, -1)]), np.eye(4)[labels] + np.arange(40)[:, None] / 100, labels)


def test_joined_is_learned_in_cut_graphs_and_asked_about_in_the_grown_one(graph: Graph) -> None:
    cut, joined, grown = (TaskStream(graph, test_graph=kind) for kind in ("cut", "joined", "grown"))
    for k in range(2):
        assert (joined[k].nodes == cut[k].nodes).all()
        assert joined[k].graph.fingerprint() == cut[k].graph.fingerprint()
        for ours, theirs in zip(joined.seen(joined[k]), grown.seen(grown[k]), strict=True):
            assert (ours.nodes == theirs.nodes).all() and (ours.test == theirs.test).all()
            assert ours.graph.fingerprint() == theirs.graph.fingerprint()
    assert joined.seen(joined[1])[0].graph.num_edges == 80 > 2 * cut[0].graph.num_edges


def test_a_joint_learner_is_given_cut_graphs_of_the_past_if_only_the_test_graph_is_joined(graph: Graph) -> None:
    stream = TaskStream(graph, test_graph="joined")
    (past,) = stream[1].observation(with_past=True).past()
    assert past.graph.num_nodes == 20
    learners = [Joint(epochs=3, hidden=4) for _ in range(2)]
    for learner, each in zip(learners, (stream, TaskStream(graph)), strict=True):
        for task in each:
            learner.observe(task)
    states = [learner.state() for learner in learners]
    assert all((states[0].tensors[name] == tensor).all() for name, tensor in states[1].tensors.items())


@pytest.mark.parametrize("test_graph", ["cut", "joined", "grown"])
def test_inductive_test_nodes_and_their_edges_are_absent_while_learning(graph: Graph, test_graph: str) -> None:
    usual, stream = TaskStream(graph, test_graph=test_graph), TaskStream(graph, test_graph=test_graph, inductive=True)
    for task, other in zip(stream, usual, strict=True):
        seen, whole = task.observation(), other.observation()
        absent = set(np.concatenate([each.nodes[each.test] for each in stream[: task.index + 1]]).tolist())
        kept = [node for node in task.nodes.tolist() if node not in absent]
        assert seen.graph.num_nodes == len(kept) < whole.graph.num_nodes
        assert (seen.graph.features == graph.features[kept]).all()
        assert seen.graph.num_edges == graph.subgraph(np.array(kept)).num_edges
        # the same nodes are learned, of the same classes, and the same are asked about
        assert [kept[k] for k in seen.train] == task.nodes[task.train].tolist()
        assert (seen.labels == whole.labels).all()
        assert (task.test == other.test).all() and task.graph.fingerprint() == other.graph.fingerprint()


def test_what_is_learned_does_not_depend_on_features_of_test_nodes_only_if_inductive(graph: Graph) -> None:
    stream = TaskStream(graph)
    features = graph.features.copy()
    for task in stream:
        features[task.nodes[task.test]] += 5
    changed = graph.with_features(features)
    for inductive in (True, False):
        states = []
        for each in (graph, changed):
            learner = FineTune(epochs=3, hidden=4)
            for task in TaskStream(each, inductive=inductive):
                learner.observe(task)
            states.append(learner.state())
        assert same_state(states[0], states[1]) == inductive


def test_descriptions_of_the_benchmark_are_as_they_were_and_others_say_more(graph: Graph) -> None:
    usual = {"graph", "tasks", "classes_per_task", "min_class_size", "split", "inter_task_edges"}
    given: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({}, {}),
        ({"inter_task_edges": True}, {}),
        ({"test_graph": "grown"}, {}),
        ({"test_graph": "joined"}, {"test_graph": "joined"}),
        ({"inductive": True}, {"test_nodes": "inductive"}),
    ]
    for options, more in given:
        found = TaskStream(graph, **options).describe()
        assert found.keys() == usual | more.keys() and found.items() >= more.items()
    assert len({TaskStream(graph, **options).fingerprint() for options, _ in given}) == 4


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"test_graph": "joint"}, "unknown test graph 'joint': did you mean 'joined'"),
        ({"test_graph": 3}, "unknown test graph '3'"),
        (
            {"test_graph": "cut", "inter_task_edges": True},
            "inter_task_edges is test_graph 'grown', but 'cut'",
        ),
        ({"inductive": "yes"}, "inductive must be true or false, not 'yes'"),
    ],
)
def test_other_protocols_are_refused(graph: Graph, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(StreamError, match=sentence):
        TaskStream(graph, **options)


def test_a_protocol_says_what_it_is() -> None:
    assert Protocol().in_words() == "without inter-task edges; transductive"
    assert Protocol("grown", True).in_words() == "with inter-task edges; inductive"
