"""``delome check``: the conformance suite on the command line."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from delome.testing.checks import CHECKS
from delome.testing.referee import QUESTIONS

Cli = Callable[..., Any]
FORGETFUL = """
from delome import FineTune


class Forgetful(FineTune):
    settings = ("til",)
    setting = "til"
    summary = "fine-tuning whose scores depend on how often it was asked, and that cannot be loaded"

    def forget(self):
        super().forget()
        self.asked = 0

    def logits(self, inputs, task):
        self.asked += 1
        return super().logits(inputs, task) * (-1) ** self.asked

    def load_state(self, state):
        raise ValueError("[/nothing] to load")
"""


@pytest.fixture
def forgetful(folder: Path) -> Iterator[str]:
    """A method of one's own that does not keep the contract, in the current folder."""
    (folder / "forgetful.py").write_text(FORGETFUL)
    yield "forgetful:Forgetful"
    sys.modules.pop("forgetful", None)
    sys.path[:] = [place for place in sys.path if place != str(folder)]


def test_a_method_that_keeps_the_contract_passes_every_check(cli: Cli) -> None:
    outcome = cli("check", "analytic", "--set", "features=32", "--json")
    assert (outcome.code, outcome.document["method"], outcome.document["holds"]) == (0, "analytic", True)
    names = [check.__name__ for check in (*CHECKS, *QUESTIONS)]
    expected = [
        {"check": name, "setting": setting, "failure": None, "declared": None, "mark": ""}
        for setting in ("cil", "til")
        for name in names
    ]
    assert outcome.document["checks"] == expected
    leaks = outcome.document["leaks"]
    assert leaks.keys() == {"cil", "til"} and leaks["cil"]["together"] == leaks["cil"]["alone"] > 80
    assert leaks["til"]["mixed"] is None  # nodes of different tasks cannot be asked about at once


@pytest.mark.parametrize(("method", "marks"), [("tpp", "†‡"), ("tpp-nodes", "‡")])
def test_what_a_method_declares_has_the_mark_of_tables(cli: Cli, method: str, marks: str) -> None:
    settings = ("--set", "hidden=16")
    found = cli("check", method, *settings, "--json").document
    assert {each["mark"] for each in found["checks"] if each["declared"]} == set(marks)
    printed = cli("check", method, *settings)
    assert printed.code == 0 and all((mark in printed.out) == (mark in marks) for mark in "†‡")
    assert f"{found['leaks']['cil']['nodes']} test nodes" in printed.out
    verdict = f"{method} passes all {len(found['checks'])} checks, but what it declares ({', '.join(marks)})"
    assert printed.out.splitlines()[-1] == verdict


def test_a_method_that_does_not_fails_and_is_told_where(cli: Cli, forgetful: str) -> None:
    outcome = cli("check", forgetful, "--json")
    assert outcome.code == 2 and not outcome.document["holds"]
    failed = [each for each in outcome.document["checks"] if each["failure"] is not None]
    assert failed and all(each["setting"] == "til" for each in failed)
    assert any("[/nothing] to load" in each["failure"] for each in failed)
    printed, checks = cli("check", forgetful), len(outcome.document["checks"])
    assert (printed.code, printed.err) == (2, f"delome: {forgetful} does not pass {len(failed)} of {checks} checks\n")
    assert (printed.out.count("✗"), printed.out.count("✓")) == (len(failed), checks - len(failed))
    text = "".join(printed.out.replace("│", "").split())
    assert all("".join(each["failure"].split()) in text for each in failed)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("delom",), "unknown method 'delom': did you mean 'delome'?"),
        (("finetune", "--set", "epoch=3"), "unknown parameter of method finetune 'epoch': did you mean 'epochs'?"),
        (("absent_module:Mine",), "cannot import method 'absent_module:Mine'"),
    ],
)
def test_what_is_no_method_is_refused_in_a_sentence(arguments: tuple[str, ...], sentence: str, cli: Cli) -> None:
    outcome = cli("check", *arguments)
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (2, "", 1)
    assert outcome.err.startswith(f"delome: {sentence}")
