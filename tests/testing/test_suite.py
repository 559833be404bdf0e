"""Running the suite on a method."""

import json

import pytest

from delome import FineTune, HPNs
from delome.learning.footprint import Footprint
from delome.testing import Outcome, Subject, check_method, run_checks
from delome.testing.checks import CHECKS
from delome.testing.referee import QUESTIONS

BROKEN = """
import delome


class Broken(delome.FineTune):
    'Raises an error of its own.'
    settings = ("til",)
    setting = "til"

    def logits(self, inputs, task):
        raise KeyError("nothing here")


class Sound(delome.FineTune):
    'Does nothing of its own.'
    settings = ("til",)
    setting = "til"
"""


def holds(subject):
    """always holds"""


def fails(subject):
    """never holds"""
    raise AssertionError(f"it is {subject.method.__name__}")


def breaks(subject):
    raise ZeroDivisionError("division by zero")


def test_every_check_is_made_in_every_setting_though_some_fail():
    outcomes = list(run_checks(FineTune, checks=[holds, fails, breaks]))
    assert outcomes[:3] == [
        Outcome("holds", "always holds", "cil", None),
        Outcome("fails", "never holds", "cil", "it is FineTune"),
        Outcome("breaks", "breaks", "cil", "ZeroDivisionError: division by zero"),
    ]
    assert [outcome.setting for outcome in outcomes] == ["cil"] * 3 + ["til"] * 3
    assert [outcome.holds for outcome in outcomes] == [True, False, False] * 2


def test_a_method_is_checked_in_the_settings_it_has_or_in_those_asked_for():
    assert [outcome.setting for outcome in run_checks(HPNs, checks=[holds])] == ["til"]
    assert [outcome.setting for outcome in run_checks(FineTune, settings=["til"], checks=[holds])] == ["til"]


def test_a_setting_that_a_method_does_not_work_in_is_a_failure():
    def makes(subject: Subject) -> None:
        subject.make()

    (outcome,) = run_checks(HPNs, settings=["cil"], checks=[makes])
    assert outcome.failure == "UnsupportedError: HPNs does not work in setting 'cil': use til"


def test_parameters_are_handed_to_every_learner():
    def same(subject):
        assert subject.make().backbone.hidden == 5
        assert subject.make(hidden=7).backbone.hidden == 5

    (outcome,) = run_checks(FineTune, {"hidden": 5}, ["cil"], [same])
    assert outcome.failure is None


class Hoarder(FineTune):
    """Keeps what it does not declare."""

    def storage(self):
        return Footprint(3, 48, 192)


def test_all_failures_are_told_at_once():
    with pytest.raises(AssertionError) as caught:
        check_method(Hoarder, settings=["til"])
    first, *others = str(caught.value).splitlines()
    assert first == "Hoarder does not pass 2 checks:"
    assert others == [
        "til: keeps no more rows than its budget allows: 3 rows without a budget",
        "til: keeps what its formula says (the class attribute ``keeps``): it keeps 3, and '0' is 0",
    ]


def test_the_command_prints_a_table_of_what_holds_and_what_does_not(cli, folder):
    (folder / "broken.py").write_text(BROKEN)
    outcome = cli("check", "broken:Broken")
    assert outcome.code == 2
    assert all(check.__doc__ in outcome.out for check in (*CHECKS, *QUESTIONS))
    table, _, leaks = outcome.out.partition("What it owes to how it is asked")
    assert "KeyError: 'nothing here'" in leaks
    marks = [line.split()[1] for line in table.splitlines() if " til " in line]
    assert len(marks) == len(CHECKS) + len(QUESTIONS)
    failed = marks.count("✗")
    assert 0 < failed < marks.count("✓") + failed
    assert "KeyError: 'nothing here'" in outcome.out
    assert outcome.err == f"delome: broken:Broken does not pass {failed} of {len(marks)} checks\n"


def test_the_command_says_that_all_is_well(cli, folder):
    (folder / "sound.py").write_text(BROKEN)
    outcome = cli("check", "sound:Sound", "--set", "hidden=16", "--json")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.document["method"] == "sound:Sound"
    assert outcome.document["holds"] is True
    assert outcome.document["checks"] == [
        {"check": check.__name__, "setting": "til", "failure": None, "declared": None, "mark": ""}
        for check in (*CHECKS, *QUESTIONS)
    ]
    assert outcome.document["leaks"]["til"]["together"] > 80


def test_a_failure_is_a_document_too(cli, folder):
    (folder / "bad.py").write_text(BROKEN)
    outcome = cli("check", "bad:Broken", "--json")
    failed = [each for each in outcome.document["checks"] if each["failure"] is not None]
    assert outcome.document["holds"] is False
    sentence = f"bad:Broken does not pass {len(failed)} of {len(CHECKS) + len(QUESTIONS)} checks"
    assert (outcome.code, json.loads(outcome.err)) == (2, {"error": sentence, "exit_code": 2})


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["fintune"], "unknown method 'fintune': did you mean 'finetune'?"),
        (["nowhere:Mine"], "cannot import method 'nowhere:Mine': there is no module 'nowhere' here"),
        (["finetune", "--set", "hiden=3"], "unknown parameter of method finetune 'hiden': did you mean 'hidden'?"),
    ],
)
def test_what_cannot_be_checked_is_refused(cli, arguments, sentence):
    outcome = cli("check", *arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert sentence in outcome.err
