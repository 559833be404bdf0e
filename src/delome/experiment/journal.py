"""TaskJournal: what a run has reached inside a task, on disk; and being asked to stop."""

from __future__ import annotations

import logging
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, TypeAlias

from delome.durable import is_there
from delome.errors import StorageError
from delome.state import State
from delome.store import MANIFEST, load_state, save_state
from delome.tracking import Reached

log = logging.getLogger(__name__)

KIND = "progress of a task"


class Stopped(BaseException):
    """A run was asked to stop, and has left all that it needs to go on.

    Like `KeyboardInterrupt` it is no `Exception`: whoever takes any of those for a damaged file must not take this one.
    """

    def __init__(self, signal_number: int) -> None:
        super().__init__(f"stopped by signal {signal_number}")
        self.signal_number = signal_number


class Stop:
    """Whether somebody has asked to stop: Ctrl-C, SIGTERM, or SIGHUP as a terminal sends it when it is closed."""

    def __init__(self) -> None:
        self.signal_number: int | None = None
        self._postponed = False

    @property
    def asked(self) -> bool:
        return self.signal_number is not None

    def check(self) -> None:
        """Ends the run if it was asked to stop: call where everything is on disk."""
        if self.signal_number is not None:
            raise Stopped(self.signal_number)

    @contextmanager
    def on_signals(self) -> Iterator[None]:
        """While this block runs, the first signal asks to stop; the second acts at once."""

        def ask(number: int, frame: FrameType | None) -> None:
            self.signal_number = number
            _handle(before)
            log.warning("stopping after this step; once more stops at once")

        before = _heeded_signals()
        with _handled_by(ask):
            yield

    @contextmanager
    def raised(self) -> Iterator[None]:
        """While this block runs, a signal raises `Stopped`; one that comes in a ``postponed`` block is only noted."""

        def stop(number: int, frame: FrameType | None) -> None:
            self.signal_number = number
            if not self._postponed:
                raise Stopped(number)

        with _handled_by(stop):
            yield

    @contextmanager
    def postponed(self) -> Iterator[None]:
        """What this block does is done as a whole."""
        self._postponed = True
        try:
            yield
        finally:
            self._postponed = False


Handler: TypeAlias = Callable[[int, FrameType | None], Any] | int | None


def _heeded_signals() -> dict[int, Handler]:
    """What each signal by which somebody asks to stop does now; one that is ignored, as by nohup, is left alone."""
    numbers = [signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if sys.platform != "win32" else [])]
    found = {int(number): signal.getsignal(number) for number in numbers}
    return {number: handler for number, handler in found.items() if handler != signal.SIG_IGN}


def _handle(handlers: dict[int, Handler]) -> None:
    for number, handler in handlers.items():
        signal.signal(number, handler)


@contextmanager
def _handled_by(handler: Handler) -> Iterator[None]:
    before = _heeded_signals()
    try:
        _handle(dict.fromkeys(before, handler))
        yield
    finally:
        _handle(before)


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

    @property
    def position(self) -> str:
        """How far the task had come, e.g. ``epoch 120``; empty at its beginning."""
        if not self.phases:
            return ""
        phase, reached = list(self.phases.items())[-1]
        return f"epoch {reached.done}" if phase == "train" else f"{phase} step {reached.done}"

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
