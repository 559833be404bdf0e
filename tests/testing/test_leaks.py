"""What the referee says of methods that know more than they should, and of those that do not."""

import pytest

from delome import PUMA, TPP, TWP, Prototypes, TPPNodes
from delome.testing import leaks_of, run_checks
from delome.testing.leaks import MEANINGS
from delome.testing.referee import OF_ALL_NODES, OF_BATCHES, asked_with_other_tasks


def test_a_method_that_judges_nodes_is_the_same_however_it_is_asked():
    found = leaks_of(Prototypes)
    assert found.together == found.alone == found.mixed
    assert [how for how, _ in found.rows()] == list(MEANINGS.values())


@pytest.mark.parametrize(("method", "declares"), [(TPP, True), (TPPNodes, False)])
def test_task_inference_for_a_whole_batch_is_shown_by_numbers_and_named(method, declares):
    found = leaks_of(method, {"hidden": 16})
    if declares:
        assert found.mixed is not None and found.together > 80 and found.mixed < 45
    else:
        assert found.together == found.alone == found.mixed
    (outcome,) = run_checks(method, {"hidden": 16}, ["cil"], [asked_with_other_tasks])
    assert outcome.holds  # it has said so
    assert (outcome.declared is not None) == declares
    if outcome.declared is not None:
        assert "nodes of other tasks" in outcome.declared


@pytest.mark.parametrize("method", [PUMA, TPP, TPPNodes, TWP])
def test_learning_from_test_nodes_is_named_and_fails_unless_it_is_declared(method):
    secret = type("Secret", (method,), {"learns_from": "training nodes", "__doc__": "The same without saying so."})
    for each, declares in ((method, True), (secret, False)):
        (outcome,) = run_checks(each, {"hidden": 16}, ["cil"], OF_ALL_NODES)
        assert outcome.holds == declares
        assert "features of test nodes that have no" in str(outcome.declared if declares else outcome.failure)


def test_what_is_not_declared_fails():
    class Secret(TPP):
        """The same without saying so."""

        judges = "nodes"

        def _profiled(self, graph, rng):
            return graph

    (outcome,) = run_checks(Secret, {"hidden": 16}, ["cil"], [asked_with_other_tasks])
    assert not outcome.holds and outcome.declared is None and asked_with_other_tasks in OF_BATCHES
