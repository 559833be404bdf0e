"""Runs the checks on a method."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from delome.experiment.comparison import ALL_NODES, TOGETHER
from delome.learning import Learner
from delome.streams.columns import Setting
from delome.testing.checks import CHECKS
from delome.testing.referee import OF_ALL_NODES, OF_BATCHES, QUESTIONS
from delome.testing.subject import Subject


@dataclass(frozen=True)
class Outcome:
    """One check in one setting; ``failure`` says what was found if it does not hold, and ``declared`` if the method has
    declared that it does not, with the ``mark`` that it has in tables for it."""

    check: str
    meaning: str
    setting: str
    failure: str | None
    declared: str | None = None
    mark: str = ""

    @property
    def holds(self) -> bool:
        return self.failure is None


def run_checks(
    method: type[Learner],
    parameters: Mapping[str, Any] | None = None,
    settings: Sequence[Setting] | None = None,
    checks: Sequence[Callable[[Subject], None]] = (*CHECKS, *QUESTIONS),
) -> Iterator[Outcome]:
    """Checks a method in each of its settings, one check after the other; a failure does not end it."""
    for setting in settings or method.settings:
        subject = Subject(method, setting, parameters or {})  # methods say what they work in
        for check in checks:
            failure = None
            try:
                check(subject)
            except Exception as error:  # a stranger's method may fail in any way
                failure = str(error) if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"
            mark = mark_of(method, check) if failure else ""
            meaning = check.__doc__ or check.__name__
            failed, declared = (None, failure) if mark else (failure, None)
            yield Outcome(check.__name__, meaning, setting, failed, declared, mark)


def mark_of(method: type[Learner], check: Callable[[Subject], None]) -> str:
    """The mark of a method that says itself that it does not pass a question of the referee, because it judges batches
    or learns from nodes without labels; empty if it does not say so."""
    if method.judges == "batches" and check in OF_BATCHES:
        return TOGETHER
    return ALL_NODES if method.learns_from == "all nodes" and check in OF_ALL_NODES else ""


def check_method(
    method: type[Learner], parameters: Mapping[str, Any] | None = None, settings: Sequence[Setting] | None = None
) -> None:
    """Raises an AssertionError that lists every check which a method does not pass.

    >>> from delome import FineTune
    >>> check_method(FineTune, settings=["til"])
    """
    failed = [outcome for outcome in run_checks(method, parameters, settings) if not outcome.holds]
    if failed:
        lines = [f"{each.setting}: {each.meaning}: {each.failure}" for each in failed]
        raise AssertionError(f"{method.__name__} does not pass {len(failed)} checks:\n" + "\n".join(lines))
