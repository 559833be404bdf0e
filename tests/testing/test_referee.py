"""The referee catches methods that know what a class-incremental learner may not know, however well they do."""

import numpy as np
import pytest
import torch

from delome import PUMA, Analytic, FineTune, Joint, TaskStream, TPPNodes, load_graph
from delome.metrics import Score
from delome.streams.columns import LabelColumns
from delome.testing import Subject, run_checks
from delome.testing.referee import QUESTIONS

OTHER_TASKS = 1e4
"""What columns of other tasks lose when a method has decided on a task."""


def of_one_task(scores: torch.Tensor, columns: LabelColumns) -> torch.Tensor:
    """Takes all nodes that are asked about at once for nodes of one task: that of most of them."""
    scores = scores[:, : columns.seen]
    tasks = [list(each) for each in columns.tasks]
    task_of = np.empty(columns.seen, np.int64)
    for index, each in enumerate(tasks):
        task_of[each] = index
    votes = np.bincount(task_of[scores.argmax(dim=1).numpy()], minlength=len(tasks))
    penalty = torch.full_like(scores, -OTHER_TASKS)
    penalty[:, tasks[votes.argmax()]] = 0
    return scores + penalty


class LeakingAnalytic(Analytic):
    """Leaks; it would be nearly perfect without."""

    def logits(self, inputs, task):
        return of_one_task(super().logits(inputs, task), self.columns)


class LeakingJoint(Joint):
    """Leaks; it would be good without."""

    def logits(self, inputs, task):
        return of_one_task(super().logits(inputs, task), self.columns)


class ByMajority(TPPNodes):
    """Takes all nodes that are asked about at once for nodes of one task if it is that of most of them, and judges each
    node otherwise: where classes are easy to tell apart, nobody would notice."""

    def nearest(self, asked, profiles):
        own = super().nearest(asked, profiles)
        votes = own.bincount()
        return torch.full_like(own, int(votes.argmax())) if votes.max() > 0.6 * len(own) else own


class TaskOfTheGraph(Analytic):
    """Takes all nodes of a graph for nodes of the task whose graph had the most similar mean of features."""

    def forget(self):
        super().forget()
        self.means = []

    def learn(self, observation, tracker):
        self.means.append(observation.graph.features.mean(axis=0))
        super().learn(observation, tracker)

    def inputs(self, graph, nodes):
        distances = [np.linalg.norm(graph.features.mean(axis=0) - mean) for mean in self.means]
        return super().inputs(graph, nodes), list(self.columns.tasks[np.argmin(distances)])

    def logits(self, inputs, task):
        own, columns = inputs
        scores = super().logits(own, task)
        penalty = torch.full_like(scores, -OTHER_TASKS)
        penalty[:, columns] = 0
        return scores + penalty


class Standardising(FineTune):
    """Standardises scores over the nodes that are asked about at once, as batch normalisation does."""

    def logits(self, inputs, task):
        scores = super().logits(inputs, task)
        return (scores - scores.mean(dim=0)) / (scores.std(dim=0, correction=0) + 1e-3)


class Cheating(FineTune):
    """Answers with the labels of the nodes it is asked about, where there are any."""

    def inputs(self, graph, nodes):
        return super().inputs(graph, nodes), None if graph.labels is None else graph.labels[nodes]

    def logits(self, inputs, task):
        own, labels = inputs
        scores = super().logits(own, task)
        return scores if labels is None else scores + 100 * torch.eye(scores.shape[1])[labels]


class Peeking(FineTune):
    """Looks at the labels of all nodes before it learns."""

    def forget(self):
        super().forget()
        self.peeked = []

    def observe(self, data, tracker=None):
        self.peeked = [*self.peeked, int(data.graph.labels[data.test].sum())]
        super().observe(data, tracker)

    def state(self):
        state = super().state()
        state.values["peeked"] = self.peeked
        return state


class LeakingPredictions(Analytic):
    """Leaks in its predictions alone; its scores are those of an honest method."""

    def predict(self, graph, nodes=None, task=None):
        scores = torch.from_numpy(self.scores(graph, nodes, task=task))
        return np.array(self.classes)[of_one_task(scores, self.columns).argmax(dim=1).numpy()]


class Boasting(FineTune):
    """Reports what it would like to be."""

    def score(self, data, split="test", *, task=None):
        return [Score(100.0, 100.0) for _ in data]


class Counting(FineTune):
    """Keeps the mean of the features of all nodes, whether they have labels or not."""

    def forget(self):
        super().forget()
        self.means = []

    def learn(self, observation, tracker):
        self.means = [*self.means, float(observation.graph.features.mean())]
        super().learn(observation, tracker)

    def state(self):
        state = super().state()
        state.values["means"] = self.means
        return state


class Scaling(FineTune):
    """Keeps the size of the features of all nodes, whether they have labels or not; their signs do not matter."""

    def forget(self):
        super().forget()
        self.sizes = []

    def learn(self, observation, tracker):
        self.sizes = [*self.sizes, float((observation.graph.features**2).mean())]
        super().learn(observation, tracker)

    def state(self):
        state = super().state()
        state.values["sizes"] = self.sizes
        return state


class ByNumber(Analytic):
    """Prefers a class by the number of a node: if nodes came class after class, this would be the right one."""

    def inputs(self, graph, nodes):
        return super().inputs(graph, nodes), torch.from_numpy(2 * nodes >= graph.num_nodes)

    def logits(self, inputs, task):
        own, second = inputs
        scores = super().logits(own, task)
        odd = torch.arange(scores.shape[1]) % 2 == 1
        return scores + 100 * (odd == second[:, None])


class Guessing(PUMA):
    """Guesses labels of test nodes that have neighbours, and does not say so."""

    learns_from = "training nodes"

    def _with_guesses(self, observation, others):
        joined = others[np.diff(observation.graph.adjacency.indptr)[others] > 0]
        return super()._with_guesses(observation, joined) if len(joined) else observation


BY_NAME = {question.__name__: question for question in QUESTIONS}
CASES = [
    (LeakingAnalytic, "asked_with_other_tasks", "0.0 % together with 40 nodes of other tasks"),
    (LeakingJoint, "asked_with_other_tasks", "0.0 % together with 40 nodes of other tasks"),
    (
        LeakingPredictions,
        "asked_with_other_tasks",
        "of predictions together with 40 nodes of other tasks are not the best score",
    ),
    (Boasting, "accuracy_is_that_of_predictions", "100.0 % are reported on task 0, "),
    (TaskOfTheGraph, "asked_in_another_graph", "0.0 % beside nodes of other tasks"),
    (ByNumber, "numbered_otherwise", "numbered otherwise"),
    (Scaling, "test_features_reach_over_edges_alone", "features of test nodes that have no neighbours were read"),
    (Standardising, "asked_one_by_one", "one by one"),
    (ByMajority, "asked_one_by_one", "one by one"),
    (Cheating, "test_labels_do_not_matter", "predictions depend on labels of the nodes that are asked about"),
    (Counting, "test_features_reach_over_edges_alone", "features of test nodes that have no neighbours were read"),
    (
        Guessing,
        "test_features_reach_over_edges_alone",
        "features of test nodes that have no other neighbours were read",
    ),
    (Peeking, "test_labels_do_not_matter", "labels of held-out nodes were read while learning"),
]


@pytest.mark.parametrize(("method", "question", "finding"), CASES)
def test_a_method_that_knows_too_much_is_caught(method, question, finding):
    (outcome,) = run_checks(method, settings=["cil"], checks=[BY_NAME[question]])
    assert not outcome.holds
    assert outcome.failure is not None and finding in outcome.failure


def test_every_question_catches_something():
    assert {question for _, question, _ in CASES} == set(BY_NAME)


@pytest.mark.parametrize("method", [Analytic, FineTune, Joint])
def test_the_same_methods_pass_without_the_leak(method):
    outcomes = list(run_checks(method, checks=QUESTIONS))
    assert [outcome.failure for outcome in outcomes] == [None] * 2 * len(QUESTIONS)


def test_the_leak_is_worth_catching():
    # where classes overlap, deciding on one task for all test nodes of a task looks like a better method
    stream = TaskStream(load_graph("synthetic", nodes=240, classes=6, features=16, degree=2, noise=3))
    honest, leaking = (Subject(method, "cil").learned(stream) for method in (Analytic, LeakingAnalytic))
    assert np.mean(leaking.evaluate(stream)) > np.mean(honest.evaluate(stream)) + 10
