"""What happens while a learner works: named phases, their steps and seconds, and where it can be taken up again."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from delome.errors import DelomeError, StateError
from delome.state import State

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Reached:
    """How far a phase has come: steps done, seconds they took, and all that later steps depend on."""

    done: int
    seconds: float
    state: State


class Journal(Protocol):
    """Where a learner leaves what it has reached inside a task, so that it can be taken up again there."""

    def found(self, phase: str) -> Reached | None:
        """What an earlier life has reached in a phase."""
        ...

    def reached(self, phase: str, done: int, total: int, seconds: float, save: Callable[[], State]) -> None:
        """Called after each step; ``save`` gives what was reached, if that is wanted now."""
        ...


class Tracker:
    """Adds up the seconds of each phase; a subclass may show the steps to a person.

    Phases may be nested: the seconds of an inner one do not count for the outer.

    >>> tracker = Tracker()
    >>> with tracker.phase("train", total=2) as step:
    ...     step()
    ...     step()
    >>> list(tracker.seconds)
    ['train']
    """

    def __init__(self, journal: Journal | None = None) -> None:
        self.seconds: dict[str, float] = {}
        self.journal = journal
        self._seconds_inside = 0.0

    @contextmanager
    def phase(self, name: str, total: int = 1, done: int = 0) -> Iterator[Callable[[], None]]:
        """Times a block; the function it yields is called once per finished step."""

        def step() -> None:
            nonlocal done
            done += 1
            self.show(name, done, total)

        self.show(name, done, total)
        before = self.seconds.get(name, 0.0)
        with self._timed(name):
            yield step
        log.debug("%s: %.2f s", name, self.seconds[name] - before)

    @contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        start, inside_before, self._seconds_inside = time.perf_counter(), self._seconds_inside, 0.0
        try:
            yield
        finally:
            passed = time.perf_counter() - start
            self.seconds[name] = self.seconds.get(name, 0.0) + passed - self._seconds_inside
            self._seconds_inside = inside_before + passed

    def steps(self, name: str, total: int, save: Callable[[], State], load: Callable[[State], None]) -> Iterator[int]:
        """Numbers of the steps of a phase that can be interrupted after any of them.

        ``save`` gives all that later steps depend on and that was not there before the first, as copies; ``load`` takes
        it back. With a journal, steps done in an earlier life are loaded and left out.

        >>> list(Tracker().steps("train", 3, State, lambda state: None))
        [0, 1, 2]
        """
        journal, first = self.journal, 0
        if journal is not None and (earlier := journal.found(name)) is not None:
            first = earlier.done
            if first > total:
                raise StateError(f"{first} steps of {name} are said to be done, but there are only {total}")
            _take_back(name, earlier.state, load)
            self.seconds[name] = self.seconds.get(name, 0.0) + earlier.seconds
        seconds = self.seconds.get(name, 0.0)
        with self.phase(name, total, first) as step:
            for number in range(first, total):
                start = time.perf_counter()
                yield number
                step()
                if journal is not None:
                    seconds += time.perf_counter() - start
                    with self._timed("checkpoint"):
                        journal.reached(name, number + 1, total, seconds, save)

    def show(self, phase: str, done: int, total: int) -> None:
        """Called at the start of a phase and after each of its steps."""


def _take_back(phase: str, state: State, load: Callable[[State], None]) -> None:
    try:
        load(state)
    except DelomeError:
        raise
    except Exception as error:  # nobody knows what a foreign state leads to
        reason = type(error).__name__
        raise StateError(f"what was reached in phase '{phase}' does not fit the learner ({reason})") from None
