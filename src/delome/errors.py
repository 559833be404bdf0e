"""Every error a user can cause: one sentence that says what, where and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class DelomeError(Exception):
    """Base of all errors raised on purpose; the command line prints its sentence and exits with 2."""


class GraphError(DelomeError):
    """A graph that cannot be learned from."""


class StreamError(DelomeError):
    """A task stream that cannot be cut from this graph."""


class DatasetError(DelomeError):
    """A dataset that is unknown, missing or unreadable."""


class ParameterError(DelomeError):
    """A parameter with an unknown name or an impossible value."""


class PastDataError(DelomeError):
    """A learner touched data of another task without having declared it."""


class StateError(DelomeError):
    """A saved state that does not fit the learner it is loaded into."""


class RunFolderError(DelomeError):
    """A run folder that cannot be written or belongs to another run."""


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """Sentence for an unknown name, with the nearest known one suggested.

    >>> unknown("method", "delom", ["delome", "joint"])
    "unknown method 'delom': did you mean 'delome'? (known: delome, joint)"
    """
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f": did you mean '{near[0]}'?" if near else ""
    return f"unknown {kind} '{name}'{hint} (known: {', '.join(names)})"
