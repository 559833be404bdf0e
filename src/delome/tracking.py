"""What happens while a learner works: named phases, their steps and their seconds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Tracker:
    """Adds up the seconds of each phase; a subclass may show the steps to a person.

    >>> tracker = Tracker()
    >>> with tracker.phase("train", total=2) as step:
    ...     step()
    ...     step()
    >>> list(tracker.seconds)
    ['train']
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str, total: int = 1) -> Iterator[Callable[[], None]]:
        """Times a block; the function it yields is called once per finished step."""
        done = 0

        def step() -> None:
            nonlocal done
            done += 1
            self.show(name, done, total)

        self.show(name, 0, total)
        start = time.perf_counter()
        try:
            yield step
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start

    def show(self, phase: str, done: int, total: int) -> None:
        """Called at the start of a phase and after each of its steps."""
