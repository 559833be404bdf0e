"""Every error a user can cause: one sentence that says what, where and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from delome.printable import printable


class DelomeError(Exception):
    """Base of all errors raised on purpose; the command line prints its sentence and exits with 2."""

    def __init__(self, sentence: str) -> None:
        super().__init__(one_line(sentence))


class GraphError(DelomeError):
    """A graph that cannot be learned from."""


class StreamError(DelomeError):
    """A task stream that cannot be cut from this graph."""


class DatasetError(DelomeError):
    """A dataset that is unknown, missing or unreadable."""


class ParameterError(DelomeError):
    """A parameter with an unknown name or an impossible value."""


class UnknownParameterError(ParameterError):
    """A parameter that a method, or the part of one, does not have; ``name`` is how it was called."""

    def __init__(self, sentence: str, name: str = "") -> None:
        super().__init__(sentence)
        self.name = name


class UnsupportedError(ParameterError, StreamError):
    """A setting or a stream that a method declares it cannot do, or a stream that does not have the setting."""


class PastDataError(DelomeError):
    """A learner touched data of another task without having declared it."""


class DivergenceError(DelomeError):
    """Learning that has led to numbers which are not finite."""


class BudgetError(DelomeError):
    """A release that would spend more privacy than was allowed."""


class StateError(DelomeError):
    """A saved state that does not fit the learner it is loaded into."""


class PersistenceError(DelomeError):
    """A file that cannot be written, or is not what was written."""


class RunFolderError(PersistenceError):
    """A run folder that belongs to another run, or cannot be resumed."""


def one_line(sentence: str) -> str:
    """A sentence that quotes what was given: neither its length nor a line break or escape in it hides the rest.

    >>> print(one_line("unknown method 'a\\nb'"))
    unknown method 'a\\nb'
    """
    short = sentence if len(sentence) <= 2000 else f"{sentence[:1000]} … {sentence[-800:]}"
    return printable(short)


def shown(value: object) -> str:
    """What was given, short enough for a sentence.

    >>> shown("x" * 1000)
    "'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…"
    """
    try:
        text = repr(value)
    except Exception:  # numbers of more than 4300 digits have no text, and a class may fail to describe itself
        return f"such a {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:60]}…"


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """Sentence for an unknown name, with the nearest known one suggested.

    >>> unknown("method", "delom", ["delome", "joint"])
    "unknown method 'delom': did you mean 'delome'? (known: delome, joint)"
    """
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f": did you mean '{near[0]}'?" if near else ""
    return f"unknown {kind} '{name}'{hint} (known: {', '.join(names)})"
