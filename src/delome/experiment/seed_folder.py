"""SeedFolder: the part of a run folder that belongs to one seed."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from delome.errors import PersistenceError, RunFolderError
from delome.experiment.checkpoints import TaskCheckpoints
from delome.experiment.folder import RunFolder
from delome.experiment.results import SeedResult, TaskResult
from delome.experiment.signals import Stop
from delome.learning import Learner
from delome.learning.learner import KIND as LEARNER_KIND
from delome.learning.saved import restore
from delome.metrics import AccuracyMatrix
from delome.parameters import values_of
from delome.persistence.documents import read_document, read_documents
from delome.persistence.files import remove_temporary_files, reporting_write_errors, write_bytes
from delome.persistence.reading import MOST_DOCUMENT, holds, path_exists, sha256_of
from delome.persistence.state_files import MANIFEST, Written, is_intact, load_state, remove_state

log = logging.getLogger(__name__)

RESULT, RESULT_KIND = "result.json", "result of a run"
TASKS, TASKS_KIND = "tasks.jsonl", "result of a task"
MATRIX = "matrix.csv"
BYTES_PER_CELL = 200
"""Bytes of a result for each pair of tasks, in seven lists of accuracies."""


class SeedFolder:
    """The part of a run folder that belongs to one seed."""

    def __init__(self, folder: RunFolder, seed: int, every: float, stop: Stop, keep_model: bool = True) -> None:
        self.folder, self.seed, self.every, self.stop = folder, seed, every, stop
        self.keep_model = keep_model
        self.run = folder.identity
        self.name = f"seed-{seed}"
        self.path = folder.path / self.name
        self.model, self.progress = self.path / "model", self.path / "progress"
        self.finished = False
        self._written = Written()

    @property
    def start_over(self) -> str:
        """What to do about files that cannot be used."""
        return self.folder.start_over(self.path)

    def resume(self, learner: Learner, tasks: int) -> SeedResult:
        """Results of the tasks that are finished already; unless that is all of them, the learner becomes the one that
        has learned them."""
        if path_exists(self.path / RESULT):
            return self._finished_result(tasks)
        result = SeedResult(self.seed, self._read_tasks(tasks))
        self._refuse_links()
        remove_temporary_files(self.path)
        known = self._load(learner)
        if known > len(result.tasks):
            raise RunFolderError(
                f"'{self.path}' is damaged: its model knows {known} tasks, but there are results of "
                f"{len(result.tasks)}: {self.start_over}"
            )
        if known < len(result.tasks):
            # results whose model was not saved are computed again
            del result.tasks[known:]
            self._keep_tasks(known)
        return result

    def _finished_result(self, tasks: int) -> SeedResult:
        file = self.path / RESULT
        with _refusing(file, self.start_over):
            found = read_document(file, RESULT_KIND, MOST_DOCUMENT + BYTES_PER_CELL * tasks**2)
            result, self.finished, run = SeedResult.from_dict(found), found["finished"] is True, found["run"]
        if not self.finished:
            raise RunFolderError(
                f"'{file}' was left unfinished by an earlier version of delome: resume with that one, "
                f"or {self.start_over}"
            )
        if run != self.run or result.seed != self.seed or len(result.tasks) != tasks:
            raise RunFolderError(f"'{file}' is not a result of this run: {self.start_over}")
        self._note_changes(result, found.get("model"))
        return result

    def _read_tasks(self, most: int) -> list[TaskResult]:
        """Results of the tasks of an unfinished seed."""
        file = self.path / TASKS
        if not path_exists(file):
            return []
        with _refusing(file, self.start_over):
            found = read_documents(file, TASKS_KIND, MOST_DOCUMENT + BYTES_PER_CELL * most**2)
            tasks, of = _task_results(found), {(line["run"], line["seed"]) for line in found}
        if of - {(self.run, self.seed)} or len(tasks) > most:
            raise RunFolderError(f"'{file}' is not a result of this run: {self.start_over}")
        return tasks

    def _keep_tasks(self, count: int) -> None:
        """Removes all results but the first few."""
        self.folder.check()
        file = self.path / TASKS
        with reporting_write_errors(file):
            write_bytes(file, b"".join(file.read_bytes().splitlines(keepends=True)[:count]))

    def _refuse_links(self) -> None:
        """A run deletes files in these folders: a link would make it delete files elsewhere."""
        for place in (self.path, self.model, self.progress):
            if place.is_symlink():
                raise RunFolderError(f"'{place}' is a link: replace it by the folder it leads to")

    def _note_changes(self, result: SeedResult, manifest: str | None) -> None:
        """Warns if parts of a finished seed are gone or changed; ``manifest`` is the checksum of the model's, none if
        the model was not to be kept."""
        parts = {
            self.model: manifest is None or is_intact(self.model, LEARNER_KIND, manifest),
            self.path / MATRIX: holds(self.path / MATRIX, _csv(result.matrix).encode()),
        }
        for place in (place for place, intact in parts.items() if not intact):
            log.warning("'%s' is gone, or was changed after the run", place)

    def _load(self, learner: Learner) -> int:
        """Loads the saved learner, if there is one, and returns the number of tasks it knows."""
        if not path_exists(self.model / MANIFEST):
            return 0
        try:
            about, state = load_state(self.model, LEARNER_KIND)
            if about.get("parameters") != values_of(learner):
                raise PersistenceError(f"'{self.model}' was not saved by this run")
            restore(learner, state, self.model)
        except PersistenceError as error:
            raise RunFolderError(f"{error}: {self.start_over}") from None
        return len(learner.columns.tasks)

    def checkpoints(self, task: int) -> TaskCheckpoints:
        """Checkpoints inside a task."""

        def written(phase: str, done: int) -> None:
            self.folder.event("checkpoint", seed=self.seed, task=task, phase=phase, done=done)
            log.debug("checkpoint: %s step %d", phase, done)

        of = {"run": self.run, "seed": self.seed}
        self.folder.add_folder(self.name)
        return TaskCheckpoints(self.progress, of, task, self.every, self.stop, self.folder.check, written)

    def finish_task(self, learner: Learner, result: SeedResult, last: bool) -> None:
        """Writes what is new; the results before the model, so that no task is learned without its result."""
        task = result.tasks[-1]
        about = {"run": self.run, "seed": self.seed, "task": len(result.tasks) - 1}
        self.folder.append_document(f"{self.name}/{TASKS}", TASKS_KIND, about | task.as_dict())
        self._settle(learner)
        self.folder.event("task", seed=self.seed, task=about["task"], accuracies=task.accuracies)
        if last:
            self._finish(result)
        else:
            self.stop.check()

    def finish(self, learner: Learner, result: SeedResult) -> None:
        """Completes a seed that was interrupted after its last task."""
        if not self.finished:
            self._settle(learner)
            self._finish(result)
        elif not self.folder.unwritable:
            self._remove_tasks()

    def _settle(self, learner: Learner) -> None:
        """Writes the model, after which the checkpoints inside the task are not needed."""
        self.folder.check()
        learner.write(self.model, self._written)
        remove_state(self.progress)

    def _finish(self, result: SeedResult) -> None:
        """Writes all results as one document, after which those of each task are not needed."""
        self.folder.write_text(f"{self.name}/{MATRIX}", _csv(result.matrix))
        model = sha256_of(self.model / MANIFEST) if self.keep_model else None
        content = {"run": self.run, **result.as_dict(), "finished": True, "model": model}
        self.folder.write_document(f"{self.name}/{RESULT}", RESULT_KIND, content)
        self._remove_tasks()
        if not self.keep_model:
            remove_state(self.model)

    def _remove_tasks(self) -> None:
        with reporting_write_errors(self.path / TASKS):
            (self.path / TASKS).unlink(missing_ok=True)


@contextmanager
def _refusing(file: Path, start_over: str) -> Iterator[None]:
    """Says what to do about a file that is not what was written."""
    try:
        yield
    except PersistenceError as error:
        raise RunFolderError(f"{error}: {start_over}") from None
    except (KeyError, TypeError):
        raise RunFolderError(f"'{file}' is damaged: {start_over}") from None


def _task_results(lines: list[dict[str, Any]]) -> list[TaskResult]:
    """What was written for each task; a ``KeyError`` or ``TypeError`` if something else was, or in another order."""
    if [line["task"] for line in lines] != list(range(len(lines))):
        raise TypeError("not every task")
    found = [{name: value for name, value in line.items() if name not in ("run", "seed", "task")} for line in lines]
    return SeedResult.from_dict({"seed": 0, "tasks": found}).tasks


def read_result(file: Path, most: int) -> dict[str, Any] | None:
    """Content of the result of a seed, or of what there is of it so far, not ``finished`` then; none if no task is."""
    if file.name == RESULT:
        return read_document(file, RESULT_KIND, most)
    lines = read_documents(file, TASKS_KIND, most)
    if not lines:
        return None
    result = SeedResult(lines[0]["seed"], _task_results(lines))
    return {"run": lines[0]["run"], **result.as_dict(), "finished": False}


def tasks_done(folder: Path, seed: int) -> int:
    """How many tasks of a seed of the run in a folder are finished, as far as one can see at a glance."""
    place = folder / f"seed-{seed}"
    with suppress(OSError):
        return (place / TASKS).read_bytes().count(b"\n")
    with suppress(OSError):
        return max(0, (place / MATRIX).read_bytes().count(b"\n") - 1)
    return 0


def is_finished(run_folder: Path, identity: str, seed: int) -> bool:
    """Whether a folder holds the whole result of a seed of this run."""
    found = finished_result(run_folder, seed)
    return found is not None and found.get("run") == identity


def finished_result(run_folder: Path, seed: int) -> dict[str, Any] | None:
    """The whole result of a seed, as it was written; none if it is not finished, or cannot be read."""
    try:
        found = read_document(run_folder / f"seed-{seed}" / RESULT, RESULT_KIND, most=1 << 30)
    except PersistenceError:
        return None
    return found if found.get("finished") is True else None


def _csv(matrix: AccuracyMatrix) -> str:
    """One line per task learned, one column per task evaluated; empty where a task was not yet seen."""
    tasks = len(matrix.rows)
    lines = [",".join(["after_task", *(f"task_{j}" for j in range(tasks))])]
    for t, row in enumerate(matrix.rows):
        lines.append(",".join([str(t), *(f"{value:.4f}" for value in row), *[""] * (tasks - len(row))]))
    return "\n".join(lines) + "\n"
