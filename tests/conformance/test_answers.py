"""What every method must answer about nodes: labels, scores, probabilities and accuracies."""

import numpy as np
import pytest
import torch

from delome import Graph
from delome.errors import DelomeError, GraphError, ParameterError, StateError
from delome.methods import METHODS
from delome.metrics import Score
from delome.testing import Subject

SMALL = {"epochs": 8, "networks": 3, "encoders": 5, "pretrain": 3, "budget": 4, "hidden": 16, "features": 64}


def variants():
    for name, method in METHODS.items():
        for setting in method.settings:
            yield pytest.param(Subject(method, setting), id=f"{name}-{setting}")
    yield pytest.param(Subject(METHODS["analytic"], "til", {"per_task": True}), id="analytic-til-per-task")


@pytest.fixture(params=list(variants()))
def make(request):
    return lambda: request.param.make(**SMALL)


@pytest.fixture
def learner(make, toy_stream):
    """Has learned two of three tasks."""
    learner = make()
    for task in toy_stream[:2]:
        learner.observe(task)
    return learner


def allowed(learner, task):
    return [0, 1, 2, 3] if learner.setting == "cil" else [2 * task, 2 * task + 1]


@pytest.mark.parametrize("task", [0, 1])
def test_the_best_score_is_the_label(learner, task, toy_stream):
    graph = toy_stream[task].graph
    scores = learner.scores(graph, task=task)
    assert scores.shape == (80, 4) and scores.dtype == np.float32
    columns = allowed(learner, task)
    assert np.isfinite(scores[:, columns]).all()
    assert (np.delete(scores, columns, axis=1) == -np.inf).all()
    labels = np.array(learner.classes)[scores.argmax(axis=1)]
    assert (labels == learner.predict(graph, task=task)).all()


@pytest.mark.parametrize("task", [0, 1])
def test_probabilities_add_up_to_one_and_the_largest_is_the_label(learner, task, toy_stream):
    graph = toy_stream[task].graph
    probabilities = learner.predict_proba(graph, task=task)
    assert probabilities.shape == (80, 4)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-12)
    assert (probabilities >= 0).all()
    assert (np.delete(probabilities, allowed(learner, task), axis=1) == 0).all()
    assert (np.array(learner.classes)[probabilities.argmax(axis=1)] == learner.predict(graph, task=task)).all()


def test_probabilities_of_networks_are_a_softmax(learner, toy_stream):
    scores = torch.from_numpy(learner.scores(toy_stream[1].graph, task=1)).double()
    softmax = scores.softmax(dim=1).numpy()
    is_softmax = np.allclose(learner.predict_proba(toy_stream[1].graph, task=1), softmax, atol=1e-12)
    assert is_softmax != (type(learner).__name__ == "Analytic")


def test_probabilities_are_part_of_what_is_carried_over(make, learner, toy_stream):
    again = make()
    again.load_state(learner.state())
    for task in toy_stream[:2]:
        for ask in ("scores", "predict_proba"):
            expected = getattr(learner, ask)(task.graph, task=task.index)
            assert (getattr(again, ask)(task.graph, task=task.index) == expected).all()
    learner.observe(toy_stream[2])
    assert learner.predict_proba(toy_stream[2].graph, task=2).shape == (80, 6)


def test_nodes_are_chosen_by_number_or_by_mask(learner, toy_stream):
    graph = toy_stream[1].graph
    mask = np.arange(80) % 3 == 0
    for ask in (learner.predict, learner.scores, learner.predict_proba):
        expected = ask(graph, np.flatnonzero(mask), task=1)
        for same in (mask, mask.tolist(), torch.from_numpy(mask), torch.from_numpy(np.flatnonzero(mask))):
            assert (ask(graph, same, task=1) == expected).all()
        assert len(ask(graph, np.zeros(80, dtype=bool), task=1)) == 0
        for bad in (mask[:-1], np.ones((80, 1), dtype=bool), [80], [-1], [0.5], [[1]]):
            with pytest.raises(
                ParameterError, match="whole numbers from 0 to 79, or true or false for each of 80 nodes"
            ):
                ask(graph, bad, task=1)


def test_the_answers_about_no_node_are_empty(learner, toy_stream):
    graph = toy_stream[0].graph
    assert learner.predict(graph, [], task=0).shape == (0,)
    assert learner.scores(graph, [], task=0).shape == learner.predict_proba(graph, [], task=0).shape == (0, 4)


def test_accuracy_on_live_data_is_that_of_nodes_whose_label_was_learned(learner, toy_graph, toy_stream):
    graph = toy_stream[1].graph
    score = learner.score(graph, task=1)
    assert score == Score.of(learner.predict(graph, task=1), graph.labels)
    assert learner.evaluate(graph, task=1) == score.balanced
    assert learner.score(graph.to_pyg(), task=1) == score
    # classes that nobody knows and labels that nobody gave do not count
    labels = np.where(np.arange(240) % 2, toy_graph.labels, -1)
    some = toy_graph.with_labels(labels)
    known = np.isin(labels, allowed(learner, 1))
    assert learner.score(some, task=1) == Score.of(learner.predict(some, known, task=1), labels[known])


def test_masks_of_pyg_data_choose_what_is_judged(learner, toy_stream):
    graph = toy_stream[1].graph
    data = graph.to_pyg()
    data.test_mask = torch.arange(80) % 2 == 0
    data.val_mask = torch.arange(80) % 5 == 0
    predicted = learner.predict(graph, task=1)
    for split, mask in (("test", data.test_mask), ("val", data.val_mask), ("train", torch.ones(80, dtype=torch.bool))):
        expected = Score.of(predicted[mask.numpy()], graph.labels[mask.numpy()])
        assert learner.score(data, split, task=1) == expected


def test_what_cannot_be_judged_is_told(learner, toy_graph, toy_stream):
    foreign = toy_graph.with_labels(np.full(240, 5))
    for graph in (foreign, toy_graph.with_labels(None), toy_graph.with_labels(np.full(240, -1))):
        with pytest.raises(
            GraphError, match=r"no node has a label that was learned: give at least one node a label of"
        ):
            learner.score(graph, task=1)
    data = toy_stream[1].graph.to_pyg()
    data.test_mask = torch.zeros(80, dtype=torch.bool)
    with pytest.raises(GraphError, match="no node inside test_mask has a label that was learned"):
        learner.score(data, task=1)
    for odd in (None, 3, toy_stream[1], [toy_graph], "text"):
        with pytest.raises(
            ParameterError, match=r"accuracy is measured on a list of tasks of a TaskStream, a delome.Graph"
        ):
            learner.evaluate(odd)
    if learner.setting == "til":
        for ask in (learner.score, learner.evaluate, learner.scores, learner.predict_proba):
            with pytest.raises(ParameterError, match="give its index, 0 to 1"):
                ask(toy_graph)


def test_nothing_is_answered_before_anything_is_learned(make, toy_stream):
    learner = make()
    for ask in (learner.score, learner.evaluate, learner.scores, learner.predict_proba, learner.predict):
        with pytest.raises(StateError, match="call observe first"):
            ask(toy_stream[0].graph, task=0)


def test_a_graph_of_another_width_is_refused(learner):
    narrow = Graph([[0], [1]], np.ones((3, 2)), [0, 2, 2])
    for ask in (learner.score, learner.scores, learner.predict_proba):
        with pytest.raises(DelomeError, match="trained on 16 features, but the graph has 2"):
            ask(narrow, task=1)
