"""TaskJournal: what a run has reached inside a task, on disk; and being asked to stop."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from delome.durable import is_there
from delome.errors import StorageError
from delome.state import State
from delome.store import MANIFEST, load_state, save_state
from delome.tracking import Reached

KIND = "progress of a task"


class Stopped(Exception):
    """A run was asked to stop, and has left all that it needs to go on."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(f"stopped by signal {signal_number}")
        self.signal_number = signal_number


class Stop:
    """Whether somebody has asked a run to stop."""

    def __init__(self) -> None:
        self.signal_number: int | None = None

    @property
    def asked(self) -> bool:
        return self.signal_number is not None

    def check(self) -> None:
        """Ends the run if it was asked to stop: call where everything is on disk."""
        if self.signal_number is not None:
            raise Stopped(self.signal_number)

    @contextmanager
    def on_signals(self) -> Iterator[None]:
        """While this block runs, SIGINT and SIGTERM ask to stop; the second of them acts at once."""
        numbers = (signal.SIGINT, signal.SIGTERM)

        def ask(number: int, frame: FrameType | None) -> None:
            self.signal_number = number
            for each in numbers:
                signal.signal(each, before[each])
            print("delome: stopping after this step; once more stops at once", file=sys.stderr, flush=True)

        before = {number: signal.signal(number, ask) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


class TaskJournal:
    """Keeps the finished phases of a task, and how far the current one has come, every few seconds in a folder.

    ``of`` names run and seed: what another one has left there is refused. ``check`` is called before anything is
    written, ``written`` afterwards.
    """

    def __init__(
        self,
        folder: Path,
        of: dict[str, Any],
        task: int,
        every: float,
        stop: Stop,
        check: Callable[[], None],
        written: Callable[[str, int], None],
    ) -> None:
        self.folder, self.of, self.task = folder, of, task
        self.every, self.stop, self.check, self.written = every, stop, check, written
        self.phases: dict[str, Reached] = self._read() if is_there(folder / MANIFEST) else {}
        self._last = time.monotonic()

    def _read(self) -> dict[str, Reached]:
        try:
            about, state = load_state(self.folder, KIND)
            if {name: about[name] for name in self.of} != self.of:
                raise StorageError(f"'{self.folder}' was left by another run or seed")
            if about["task"] != self.task:
                return {}  # the task was finished before this could be removed
            return {phase: self._reached(phase, values, state) for phase, values in state.values.items()}
        except StorageError as error:
            raise StorageError(f"{error}; delete '{self.folder}' to go on from the last finished task") from None
        except (KeyError, TypeError, AttributeError):
            raise StorageError(f"'{self.folder}' is damaged: delete it to go on from the last finished task") from None

    def _reached(self, phase: str, values: dict[str, Any], state: State) -> Reached:
        done, seconds, own = values["done"], values["seconds"], values["values"]
        if type(done) is not int or done < 0 or not isinstance(seconds, int | float) or not isinstance(own, dict):
            raise TypeError("not what was written")
        prefix = f"{phase}/"
        tensors = {
            name.removeprefix(prefix): tensor for name, tensor in state.tensors.items() if name.startswith(prefix)
        }
        return Reached(done, seconds, State(tensors, own))

    def found(self, phase: str) -> Reached | None:
        return self.phases.get(phase)

    def reached(self, phase: str, done: int, total: int, seconds: float, save: Callable[[], State]) -> None:
        due = self.stop.asked or time.monotonic() - self._last >= self.every
        if due or done == total:
            self.phases[phase] = Reached(done, seconds, save())
        if due:
            self.write()
            self.written(phase, done)
        self.stop.check()

    def write(self) -> None:
        """Writes everything reached so far in place of what was written before."""
        self.check()
        state = State()
        for phase, reached in self.phases.items():
            state.tensors |= {f"{phase}/{name}": tensor for name, tensor in reached.state.tensors.items()}
            state.values[phase] = {"done": reached.done, "seconds": reached.seconds, "values": reached.state.values}
        save_state(self.folder, KIND, {**self.of, "task": self.task}, state)
        self._last = time.monotonic()
