"""What every registered method must do, in every setting and on every backbone: the suite that users have, and more."""

from dataclasses import astuple

import pytest
from numpy.testing import assert_array_equal

from delome.backbones import BACKBONES
from delome.methods import METHODS
from delome.parameters import parameters_of
from delome.testing import Subject
from delome.testing.checks import CHECKS
from delome.testing.referee import QUESTIONS
from delome.testing.suite import mark_of

ON_GAT = {"finetune", "joint", "twp", "ssm-uniform", "delome"}
"""One method of each kind; the others reach a backbone in the same ways."""


def subjects():
    """Every method in its settings and on its backbones."""
    for name, method in METHODS.items():
        backbones: list[str | None] = [*BACKBONES] if "backbone" in parameters_of(method) else [None]
        if name not in ON_GAT:
            backbones = [each for each in backbones if each != "gat"]
        for setting in method.settings:
            for backbone in backbones:
                parameters = {} if backbone is None else {"backbone": backbone}
                marks = [pytest.mark.slow] if backbone == "gat" else []
                identity = "-".join(filter(None, (name, setting, backbone)))
                yield pytest.param(Subject(method, setting, parameters), id=identity, marks=marks)


every_subject = pytest.mark.parametrize("subject", list(subjects()))


@every_subject
@pytest.mark.parametrize("check", [*CHECKS, *QUESTIONS], ids=lambda check: check.__name__)
def test_it_passes_the_suite_or_says_that_it_does_not(subject, check):
    if mark_of(subject.method, check):
        return  # what comes of it is in tests/testing/test_leaks.py
    check(subject)


@every_subject
def test_a_restored_learner_scores_to_the_bit_as_the_one_that_was_saved(subject, scores_of):
    stream = subject.stream()
    whole, restored = subject.learned(stream), subject.make()
    restored.load_state(whole.state())
    for task in stream:
        assert_array_equal(scores_of(restored, task), scores_of(whole, task))


@every_subject
def test_nothing_is_stored_before_anything_is_learned(subject):
    assert astuple(subject.make().storage()) == (0, 0, 0)


@pytest.mark.parametrize("subject", [each for each in subjects() if each.values[0].method.needs_past])
def test_past_graphs_are_counted_as_their_features_and_edges(subject):
    stream = subject.stream()
    graphs = [task.graph for task in stream]
    features = sum(graph.features.nbytes for graph in graphs)
    edges = sum(graph.adjacency.indices.nbytes + graph.adjacency.indptr.nbytes for graph in graphs)
    assert subject.learned(stream).past_graphs.bytes == features + edges
