"""Progress of a learner: named phases, their steps and seconds, and checkpoints to resume from."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from delome.errors import DelomeError, StateError

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Checkpoint:
    """How far a phase has come: steps done, seconds they took, and everything later steps depend on."""

    done: int
    seconds: float
    state: Any


class Checkpoints(Protocol):
    """Where a learner stores its progress inside a task, so that it can resume there."""

    def found(self, phase: str) -> Checkpoint | None:
        """The checkpoint of a phase that an interrupted run has left."""
        ...

    def reached(self, phase: str, done: int, total: int, seconds: float, save: Callable[[], Any]) -> None:
        """Called after each step; ``save`` makes the state to store, if it is to be stored now."""
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

    def __init__(self, checkpoints: Checkpoints | None = None) -> None:
        self.seconds: dict[str, float] = {}
        self.checkpoints = checkpoints
        self._seconds_inside = 0.0
        self._stage = ""

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

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Inside this block `steps` have a name of their own: a task may have the same phase once more outside."""
        before, self._stage = self._stage, f"{name} "
        try:
            yield
        finally:
            self._stage = before

    def steps(self, name: str, total: int, save: Callable[[], Any], load: Callable[[Any], None]) -> Iterator[int]:
        """Numbers of the steps of a phase that can be interrupted after any of them.

        ``save`` gives all that later steps depend on and that was not there before the first, as copies; ``load`` takes
        it back. Steps for which there is a checkpoint are skipped.

        >>> list(Tracker().steps("train", 3, dict, lambda state: None))
        [0, 1, 2]
        """
        checkpoints, first, name = self.checkpoints, 0, self._stage + name
        if checkpoints is not None and (earlier := checkpoints.found(name)) is not None:
            first = earlier.done
            if first > total:
                raise StateError(f"the checkpoint of '{name}' is at step {first}, but there are only {total} steps")
            _load_checkpoint(name, earlier.state, load)
            self.seconds[name] = self.seconds.get(name, 0.0) + earlier.seconds
        seconds = self.seconds.get(name, 0.0)
        with self.phase(name, total, first) as step:
            for number in range(first, total):
                start = time.perf_counter()
                yield number
                step()
                if checkpoints is not None:
                    seconds += time.perf_counter() - start
                    with self._timed("checkpoint"):
                        checkpoints.reached(name, number + 1, total, seconds, save)

    def show(self, phase: str, done: int, total: int) -> None:
        """Called at the start of a phase and after each of its steps."""


class Watcher:
    """Follows the progress of a command; this one shows nothing. ``tasks`` counts the tasks that were begun."""

    def __init__(self) -> None:
        self.tasks = 0

    @contextmanager
    def watching(self, seeds: Sequence[int] = ()) -> Iterator[None]:
        """While this block runs, a command with these seeds is at work."""
        yield

    def loading(self, activity: str, done: int, total: int | None) -> None:
        """A graph is being loaded: bytes done, bytes in all."""

    def single(self, activity: str) -> Tracker:
        """Tracker of the one thing that is done now."""
        return Tracker()

    def tracker(self, seed: int, task: int, tasks: int) -> Tracker:
        """Tracker of one of so many tasks of a seed."""
        self.tasks += 1
        return self.single(f"seed {seed}, task {task}")


def _load_checkpoint(phase: str, state: Any, load: Callable[[Any], None]) -> None:
    try:
        load(state)
    except DelomeError:
        raise
    except Exception as error:  # a state from elsewhere may fail anywhere
        reason = type(error).__name__
        raise StateError(f"the checkpoint of '{phase}' does not fit the learner ({reason})") from None
