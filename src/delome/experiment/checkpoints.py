"""TaskCheckpoints: how far a run has come inside a task, on disk."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from delome.errors import PersistenceError
from delome.experiment.signals import Stop
from delome.persistence.reading import path_exists
from delome.persistence.state import State
from delome.persistence.state_files import MANIFEST, load_state, save_state
from delome.progress import Checkpoint

KIND = "progress of a task"


class TaskCheckpoints:
    """Stores the finished phases of a task and the progress of the current one, every few seconds, in a folder.

    ``of`` names run and seed: checkpoints of another are refused. ``check`` is called before anything is written,
    ``written`` afterwards.
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
        self.phases: dict[str, Checkpoint] = self._read() if path_exists(folder / MANIFEST) else {}
        self._last = time.monotonic()

    def _read(self) -> dict[str, Checkpoint]:
        try:
            about, state = load_state(self.folder, KIND)
            if {name: about[name] for name in self.of} != self.of:
                raise PersistenceError(f"'{self.folder}' belongs to another run or seed")
            if about["task"] != self.task:
                return {}  # the task was finished before this could be removed
            return {phase: self._reached(phase, values, state) for phase, values in state.values.items()}
        except PersistenceError as error:
            raise PersistenceError(f"{error}; delete '{self.folder}' to resume from the last finished task") from None
        except (KeyError, TypeError, AttributeError):
            raise PersistenceError(
                f"'{self.folder}' is damaged: delete it to resume from the last finished task"
            ) from None

    def _reached(self, phase: str, values: dict[str, Any], state: State) -> Checkpoint:
        done, seconds, own = values["done"], values["seconds"], values["values"]
        if type(done) is not int or done < 0 or not isinstance(seconds, int | float) or not isinstance(own, dict):
            raise TypeError("not what was written")
        prefix = f"{phase}/"
        tensors = {
            name.removeprefix(prefix): tensor for name, tensor in state.tensors.items() if name.startswith(prefix)
        }
        return Checkpoint(done, seconds, State(tensors, own))

    @property
    def position(self) -> str:
        """Where the task is, e.g. ``epoch 120``; empty at its beginning."""
        if not self.phases:
            return ""
        phase, reached = list(self.phases.items())[-1]
        return f"epoch {reached.done}" if phase == "train" else f"{phase} step {reached.done}"

    def found(self, phase: str) -> Checkpoint | None:
        return self.phases.get(phase)

    def reached(self, phase: str, done: int, total: int, seconds: float, save: Callable[[], State]) -> None:
        due = self.stop.asked or time.monotonic() - self._last >= self.every
        if due or done == total:
            self.phases[phase] = Checkpoint(done, seconds, save())
        if due:
            self.write()
            self.written(phase, done)
        self.stop.check()

    def write(self) -> None:
        """Writes everything reached so far, replacing the previous checkpoint."""
        self.check()
        state = State()
        for phase, reached in self.phases.items():
            state.tensors |= {f"{phase}/{name}": tensor for name, tensor in reached.state.tensors.items()}
            state.values[phase] = {"done": reached.done, "seconds": reached.seconds, "values": reached.state.values}
        save_state(self.folder, KIND, {**self.of, "task": self.task}, state)
        self._last = time.monotonic()
