import json
import math

import pytest

from delome.errors import BudgetError, StateError
from delome.release.gaussian import epsilon_of, mu_of
from delome.release.ledger import Ledger, Release


def ledger(*tasks, epsilon=1.0, source="secret"):
    return Ledger(tuple(Release(classes, epsilon, 1e-5, source) for classes in tasks))


def test_tasks_of_other_classes_compose_in_parallel():
    assert ledger((0, 1), (2, 3)).epsilon == pytest.approx(1.0)


def test_a_class_that_comes_again_composes():
    found = ledger((0, 1), (1, 2), (3,), (1,))
    assert found.epsilon == pytest.approx(epsilon_of(math.sqrt(3) * mu_of(1.0, 1e-5), 1e-5))
    assert found.epsilon < 3  # less than simple composition, which would also spend three times δ
    assert found.epsilon_any_label == pytest.approx(epsilon_of(2 * mu_of(1.0, 1e-5), 1e-5))


def test_a_budget_is_not_exceeded():
    twice = ledger((0,), (0,))
    ledger((0,), (1,)).refuse_more_than(1.0)
    twice.refuse_more_than(None)
    twice.refuse_more_than(1.5)
    with pytest.raises(BudgetError, match=r"privacy loss of a node to ε = 1\.47, above epsilon_total = 1\.4"):
        twice.refuse_more_than(1.4)
    with pytest.raises(BudgetError, match="ε = inf"):
        ledger((0,), epsilon=math.inf).refuse_more_than(100.0)


@pytest.mark.parametrize(
    ("epsilon", "source", "sentence"),
    [
        (2.0, "secret", "(2, 1e-05)-differential privacy of nodes"),
        (2.0, "seed", "none for whoever knows the seed"),
        (math.inf, "secret", "none: no noise was added"),
    ],
)
def test_it_says_what_is_guaranteed(epsilon, source, sentence):
    found = ledger((0, 1), epsilon=epsilon, source=source)
    assert found.as_dict()["guarantee"].startswith(sentence)
    assert found.holds == (sentence[0] == "(")


def test_it_survives_json():
    for each in (ledger(), ledger((0, 1), (1,)), ledger((0,), epsilon=math.inf)):
        plain = json.loads(json.dumps(each.as_dict(), allow_nan=False))
        assert Ledger.of(plain, [release.classes for release in each.releases]) == each


@pytest.mark.parametrize("broken", [None, {}, {"releases": [{}]}, {"releases": []}])
def test_a_damaged_ledger_is_refused(broken):
    with pytest.raises(StateError, match="'privacy' does not account for every task"):
        Ledger.of(broken, [(0,)])
    for change in ({"epsilon": -1.0}, {"delta": 2.0}, {"noise": "none"}, {"classes": [7]}):
        plain = ledger((0,)).as_dict()
        plain["releases"][0] |= change
        with pytest.raises(StateError, match="'privacy' does not account for every task"):
            Ledger.of(plain, [(0,)])
