"""What checks are made on."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from delome import Analytic, DeLoMe, FineTune, HPNs
from delome.backbones.two_layers import TwoLayers
from delome.persistence.state import State
from delome.testing import Subject
from delome.testing.subject import SMALL, bag_of_words, odd_streams, same_state


def test_learners_are_small_where_they_can_be():
    learner = Subject(DeLoMe, "til").make()
    assert isinstance(learner, DeLoMe) and isinstance(learner.backbone, TwoLayers)
    assert (learner.setting, learner.epochs, learner.backbone.hidden, learner.memory.budget) == ("til", 8, 32, 8)
    analytic, hpns = Subject(Analytic, "cil").make(), Subject(HPNs, "til").make()
    assert isinstance(analytic, Analytic) and analytic.features == SMALL["features"]
    assert isinstance(hpns, HPNs) and hpns.epochs == SMALL["epochs"]


def test_parameters_of_a_subject_win_over_small_ones_and_those_of_a_check():
    subject = Subject(DeLoMe, "cil", {"memory.budget": 3, "backbone": "gcn", "epochs": 2})
    learner = subject.make(epochs=40, budget=9, encoders=1)
    assert isinstance(learner, DeLoMe)
    assert (learner.memory.budget, learner.epochs, type(learner.backbone).__name__) == (3, 2, "GCN")


def test_a_stream_has_three_tasks_of_two_easy_classes():
    subject = Subject(FineTune, "til")
    stream = subject.stream()
    assert [task.classes for task in stream] == [(0, 1), (2, 3), (4, 5)]
    assert (subject.graph().num_nodes, subject.graph().num_features) == (240, 16)
    assert subject.learned(stream).evaluate(stream)[-1] > 85


def test_streams_do_not_share_what_one_of_them_may_change():
    first, second = (Subject(FineTune, "cil").stream() for _ in range(2))
    labels = first[0].graph.labels
    assert labels is not None
    labels[:] = 1
    assert set(second[0].graph.labels.tolist()) == {0, 1}


def test_words_are_sparse():
    graph = bag_of_words()
    assert sp.issparse(graph.features)
    assert graph.labels is not None
    assert np.bincount(graph.labels).tolist() == [30] * 4


def test_odd_streams_are_what_they_are_called():
    odd = odd_streams()
    assert odd["one class a task, no edges"][0].graph.num_edges == 0
    assert [len(task.classes) for task in odd["one class a task, no edges"]] == [1] * 4
    assert len(odd["a single task"]) == 1
    assert [len(task.classes) for task in odd["a class left over"]] in ([3], [3, 1])
    assert odd["another order of classes"][0].class_labels == (2, 0)
    assert not odd["all features zero"][0].graph.features.any()
    of_three = odd["classes of three nodes"][0].graph.labels
    assert of_three is not None and np.bincount(of_three).tolist() == [3, 3]
    assert odd["edges between tasks"][1].graph.num_nodes == 60
    assert odd["labels that are text"][0].class_labels == ("a", "b")


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (State({"w": torch.ones(2)}, {"n": 1}), True),
        (State({"w": torch.ones(2)}, {"n": 2}), False),
        (State({"v": torch.ones(2)}, {"n": 1}), False),
        (State({"w": torch.tensor([1.0, 1.0 + 1e-6])}, {"n": 1}), False),
        (State({"w": torch.ones(3)}, {"n": 1}), False),
        (State({"w": torch.ones(2), "v": torch.ones(2)}, {"n": 1}), False),
    ],
)
def test_states_are_the_same_to_the_last_bit(other, same):
    assert same_state(State({"w": torch.ones(2)}, {"n": 1}), other) is same
