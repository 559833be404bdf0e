"""Every check can fail: for each there is a method that breaks just what it checks."""

import copy
import itertools
from dataclasses import replace
from typing import Annotated, Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from delome import FineTune, Graph, Joint, Replay
from delome.errors import ParameterError
from delome.learning.footprint import Footprint
from delome.memories import PropagatedRows
from delome.parameters import Param
from delome.progress import Tracker
from delome.streams.columns import LabelColumns
from delome.testing import run_checks
from delome.testing.checks import CHECKS, refused

CASES: list[Any] = []


def caught_by(check, finding, setting="cil"):
    """Decorator of a broken method: the check that must fail, and what it must say."""

    def add(method):
        CASES.append(pytest.param(method, check, finding, setting, id=f"{method.__name__}-{check}"))
        return method

    return add


@caught_by("learns_the_current_task", "% on task 0")
class Idle(FineTune):
    """Learns nothing."""

    def row_loss(self, rows):
        return 0 * super().row_loss(rows)


@caught_by("learns_the_current_task", "PastDataError: the graph of an earlier task is gone")
class KeepsGraphs(FineTune):
    """Looks at the graph of the last task again."""

    last: Graph | None = None

    def learn(self, observation, tracker):
        if self.last is not None:
            self.last.propagate(1)
        self.last = observation.graph
        super().learn(observation, tracker)


@caught_by("predicting_changes_nothing", "the state has changed")
class Counts(FineTune):
    """Remembers how often it was asked."""

    asked = 0

    def logits(self, inputs, task):
        self.asked += 1
        return super().logits(inputs, task)

    def state(self):
        state = super().state()
        state.values["asked"] = self.asked
        return state


@caught_by("predicting_changes_nothing", "the second prediction differs")
class Fickle(FineTune):
    """Answers otherwise every second time."""

    sign = 1

    def logits(self, inputs, task):
        self.sign = -self.sign
        return self.sign * super().logits(inputs, task)


@caught_by("predicts_known_classes", "predicted {5}")
@caught_by("predicts_known_classes", "predicted {5}", "til")
class Prophet(FineTune):
    """Predicts a class that has not come yet."""

    def predict(self, graph, nodes=None, task=None):
        return np.full(graph.num_nodes, 5)


@caught_by("same_seed_same_bits", "two learners with the same seed differ")
class Restless(FineTune):
    """Starts from other weights every time."""

    draws = itertools.count()

    def reset(self, features, outputs, draw=0):
        super().reset(features, outputs, next(self.draws))


@caught_by("leaves_global_randomness_alone", "torch's global generator was used")
class GlobalTorch(FineTune):
    """Draws from torch's global generator, and does nothing with it."""

    def row_loss(self, rows):
        torch.rand(1)
        return super().row_loss(rows)


@caught_by("leaves_global_randomness_alone", "numpy's global generator was used")
class GlobalNumpy(FineTune):
    """Shuffles by numpy's global generator."""

    def learn(self, observation, tracker):
        np.random.permutation(1000)  # noqa: NPY002  # that is the mistake
        super().learn(observation, tracker)


@caught_by("leaves_global_randomness_alone", "the result depends on the global seed")
class GlobalSeed(FineTune):
    """Reads the global seed, and draws nothing."""

    def reset(self, features, outputs, draw=0):
        super().reset(features, outputs, torch.initial_seed() % 1000)


@caught_by("state_is_all_there_is", "a learner that was saved after every task differs")
class Forgetful(FineTune):
    """Counts tasks, and leaves the number out of its state."""

    def forget(self):
        super().forget()
        self.rounds = 0

    def learn(self, observation, tracker):
        self.rounds += 1
        super().learn(observation, tracker)

    def row_loss(self, rows):
        return self.rounds * super().row_loss(rows)


@caught_by("state_is_all_there_is", "a learner that was saved after every task differs")
class CopiesGraphs(FineTune):
    """Keeps copies of graphs outside its state, and learns more of a task the more nodes it has seen."""

    def forget(self):
        super().forget()
        self.copies = []

    def learn(self, observation, tracker):
        self.copies.append(copy.deepcopy(observation.graph))
        super().learn(observation, tracker)

    def row_loss(self, rows):
        return sum(graph.num_nodes for graph in self.copies) * super().row_loss(rows)


@caught_by("state_is_tensors_and_json", "its values do not survive JSON")
class Tuples(FineTune):
    """Has a tuple in its state."""

    def state(self):
        state = super().state()
        state.values["shape"] = (self.width, self.outputs)
        return state


@caught_by("state_is_tensors_and_json", "a tensor carries gradients")
class Attached(FineTune):
    """Has a parameter in its state as it is."""

    def state(self):
        state = super().state()
        state.tensors |= {f"model.{name}": each for name, each in self.model.named_parameters()} if self.model else {}
        return state


@caught_by("state_is_a_copy", "'model.first' has changed")
class Aliased(FineTune):
    """Hands out its weights instead of copies."""

    def state(self):
        state = super().state()
        if self.model is not None:
            state.tensors |= {f"model.{name}": each.detach() for name, each in self.model.named_parameters()}
        return state


class TooManyRows(PropagatedRows):
    """One row more than the budget allows."""

    def build(self, observation, context):
        return PropagatedRows.build(replace(self, budget=self.budget + 1), observation, context)


@caught_by("storage_is_within_budget", "[9, 9] rows of the classes for a budget of 8")
class Greedy(Replay):
    """Keeps more than its budget."""

    memory = TooManyRows()


@caught_by("storage_is_within_budget", "1 rows without a budget")
class KeepsARow(FineTune):
    """Keeps rows without being allowed any."""

    def storage(self):
        return Footprint(1, 16, 64)


@caught_by("storage_is_as_declared", "it keeps 16, and '0' is 0")
class Undeclared(FineTune):
    """Keeps numbers that it does not declare."""

    def storage(self):
        return Footprint(0, 16, 64)


@caught_by("past_graphs_are_counted", "it counts 0 rows, and the graphs it reads have 240")
class LooksBackForFree(Joint):
    """Reads past graphs and says that it keeps nothing."""

    def storage(self):
        return Footprint()


@caught_by("knowing_the_task_never_hurts", "% with the task")
class ConfusedByTheTask(FineTune):
    """Does worse if it is told the task."""

    def logits(self, inputs, task):
        return (-1 if self.setting == "til" else 1) * super().logits(inputs, task)


@caught_by("til_needs_the_task", "expected '… give its index …', but nothing was refused", "til")
class Presumptuous(FineTune):
    """Takes the first task if none is given."""

    def predict(self, graph, nodes=None, task=None):
        return super().predict(graph, nodes, task or 0)


@caught_by("other_widths_are_refused", "but nothing was refused")
class Padding(FineTune):
    """Fills up features that are missing."""

    def read(self, graph):
        missing = max(0, self.num_features - graph.num_features)
        return graph.with_features(np.pad(graph.features, [(0, 0), (0, missing)]))


@caught_by("survives_odd_streams", "ZeroDivisionError: division by zero")
class NeedsEdges(FineTune):
    """Divides by the number of edges."""

    def learn(self, observation, tracker):
        self.degree = observation.graph.num_nodes / (observation.graph.num_edges and 1)
        super().learn(observation, tracker)


@caught_by("sparse_features_are_the_same", "% of the predictions agree")
class MisreadsSparse(FineTune):
    """Takes sparse features for something else."""

    def inputs(self, graph, nodes):
        self.sign = -1 if sp.issparse(graph.features) else 1
        return super().inputs(graph, nodes)

    def logits(self, inputs, task):
        return self.sign * super().logits(inputs, task)


@caught_by("nothing_is_predicted_at_first", "expected '… call observe first …', but nothing was refused")
class Guesses(FineTune):
    """Predicts class 0 before it has learned anything."""

    def predict(self, graph, nodes=None, task=None):
        return super().predict(graph, nodes, task) if self.columns.tasks else np.zeros(graph.num_nodes, int)


@caught_by("parameters_are_described", "a parameter has no description")
class Unexplained(FineTune):
    """Has a parameter without a meaning."""

    mystery: Annotated[int, Param("")] = 1


@caught_by("parameters_are_described", "'summary' is empty")
class Nameless(FineTune):
    """Says nothing about itself."""

    summary = ""


@caught_by("parameters_are_described", "'__doc__' is empty")
class Undocumented(FineTune):
    pass


@caught_by("graphs_are_gone_after_their_task", "expected '… is gone …', but nothing was refused")
@caught_by("tasks_come_in_order", "cannot follow 0 learned tasks …', but nothing was refused")
class OwnObserve(FineTune):
    """Observes in its own way: any task at any time, and their graphs stay open."""

    def observe(self, data, tracker=None):
        observation = data.observation()
        self.columns = LabelColumns(self.setting, [*self.columns.tasks, observation.classes])
        self.known = self.known.extended(data.class_labels, None)
        self.num_features = observation.num_features
        self.learn(observation, tracker or Tracker())


@caught_by("no_node_is_no_error", "ValueError: nobody to ask about")
class NeedsNodes(FineTune):
    """Cannot be asked about no node."""

    def predict(self, graph, nodes=None, task=None):
        if nodes is not None and len(nodes) == 0:
            raise ValueError("nobody to ask about")
        return super().predict(graph, nodes, task)


@caught_by("scores_and_probabilities_agree", "the highest probability is not the prediction")
class Unsure(FineTune):
    """Finds every class equally likely."""

    def probabilities(self, scores, task):
        return torch.full_like(scores, 1 / scores.shape[1])


@caught_by("scores_and_probabilities_agree", "probabilities do not add up to 1")
class Unnormalised(FineTune):
    """Forgets to divide."""

    def probabilities(self, scores, task):
        return 2 * super().probabilities(scores, task)


@caught_by("scores_and_probabilities_agree", "a class that is not allowed has a probability", "til")
class Generous(FineTune):
    """Leaves something to classes of other tasks."""

    def probabilities(self, scores, task):
        return 0.99 * super().probabilities(scores, task) + 0.01 / scores.shape[1]


BY_NAME = {check.__name__: check for check in CHECKS}


@pytest.mark.parametrize(("method", "check", "finding", "setting"), CASES)
def test_a_broken_method_is_caught(method, check, finding, setting):
    (outcome,) = run_checks(method, settings=[setting], checks=[BY_NAME[check]])
    assert not outcome.holds
    assert (outcome.check, outcome.setting) == (check, setting)
    assert outcome.failure is not None and finding in outcome.failure


def test_every_check_catches_something():
    assert {case.values[1] for case in CASES} == set(BY_NAME)


def test_every_check_says_what_it_checks():
    assert all(check.__doc__ and "\n" not in check.__doc__ for check in CHECKS)
    assert len({check.__doc__ for check in CHECKS}) == len(CHECKS)


def test_parts_need_not_be_registered():
    (outcome,) = run_checks(Greedy, settings=["cil"], checks=[BY_NAME["parameters_are_described"]])
    assert outcome.holds, outcome.failure


def test_a_refusal_in_other_words_is_noticed():
    def refuse():
        raise ParameterError("no such thing")

    refused(refuse, ParameterError, "such")
    with pytest.raises(AssertionError, match="expected '… else …', not 'no such thing'"):
        refused(refuse, ParameterError, "else")
    with pytest.raises(AssertionError, match="but nothing was refused"):
        refused(lambda: None, ParameterError, "such")
