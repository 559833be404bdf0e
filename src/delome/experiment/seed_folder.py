"""SeedFolder: the part of a run folder that belongs to one seed."""

from __future__ import annotations

import logging
from pathlib import Path

from delome.errors import PersistenceError, RunFolderError
from delome.experiment.checkpoints import TaskCheckpoints
from delome.experiment.folder import RunFolder
from delome.experiment.results import SeedResult
from delome.experiment.signals import Stop
from delome.learning import Learner
from delome.learning.learner import KIND as LEARNER_KIND
from delome.learning.saved import restore
from delome.metrics import AccuracyMatrix
from delome.parameters import values_of
from delome.persistence.documents import read_document
from delome.persistence.files import remove_temporary_files
from delome.persistence.reading import MOST_DOCUMENT, holds, path_exists, sha256_of
from delome.persistence.state_files import MANIFEST, is_intact, load_state, remove_state

log = logging.getLogger(__name__)

RESULT, RESULT_KIND = "result.json", "result of a run"
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

    def resume(self, learner: Learner, tasks: int) -> SeedResult:
        """Results of the tasks that are finished already; unless that is all of them, the learner becomes the one that
        has learned them."""
        result, file = SeedResult(self.seed), self.path / RESULT
        if path_exists(file):
            try:
                found = read_document(file, RESULT_KIND, MOST_DOCUMENT + BYTES_PER_CELL * tasks**2)
                result, self.finished, run = SeedResult.from_dict(found), found["finished"], found["run"]
            except PersistenceError as error:
                raise RunFolderError(f"{error}: start over with --fresh") from None
            except (KeyError, TypeError):
                raise RunFolderError(f"'{file}' is damaged: start over with --fresh") from None
            too_few = self.finished and len(result.tasks) < tasks
            if run != self.run or result.seed != self.seed or len(result.tasks) > tasks or too_few:
                raise RunFolderError(f"'{file}' is not a result of this run: start over with --fresh")
        if self.finished:
            self._note_changes(result, found.get("model"))
        else:
            self._refuse_links()
            remove_temporary_files(self.path)
            known = self._load(learner)
            if known > len(result.tasks):
                raise RunFolderError(
                    f"'{self.path}' is damaged: its model knows {known} tasks, but there are results of "
                    f"{len(result.tasks)}: start over with --fresh"
                )
            # results whose model was not saved are computed again
            del result.tasks[known:]
        return result

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
            raise RunFolderError(f"{error}: start over with --fresh") from None
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
        """Writes the results before the model, so that no task is learned without its result."""
        self.folder.write_text(f"{self.name}/{MATRIX}", _csv(result.matrix))
        self._write_result(result, finished=False)
        self._settle(learner)
        accuracies = result.tasks[-1].accuracies
        self.folder.event("task", seed=self.seed, task=len(result.tasks) - 1, accuracies=accuracies)
        if last:
            self._write_result(result, finished=True)
        else:
            self.stop.check()

    def finish(self, learner: Learner, result: SeedResult) -> None:
        """Completes a seed that was interrupted after its last task."""
        if not self.finished:
            self._settle(learner)
            self._write_result(result, finished=True)

    def _settle(self, learner: Learner) -> None:
        """Writes the model, after which the checkpoints inside the task are not needed."""
        self.folder.check()
        learner.write(self.model)
        remove_state(self.progress)

    def _write_result(self, result: SeedResult, finished: bool) -> None:
        content = {"run": self.run, **result.as_dict(), "finished": finished}
        if finished:
            content["model"] = sha256_of(self.model / MANIFEST) if self.keep_model else None
        self.folder.write_document(f"{self.name}/{RESULT}", RESULT_KIND, content)
        if finished and not self.keep_model:
            remove_state(self.model)


def is_finished(run_folder: Path, identity: str, seed: int) -> bool:
    """Whether a folder holds the whole result of a seed of this run."""
    try:
        found = read_document(run_folder / f"seed-{seed}" / RESULT, RESULT_KIND, most=1 << 30)
    except PersistenceError:
        return False
    return found.get("run") == identity and found.get("finished") is True


def _csv(matrix: AccuracyMatrix) -> str:
    """One line per task learned, one column per task evaluated; empty where a task was not yet seen."""
    tasks = len(matrix.rows)
    lines = [",".join(["after_task", *(f"task_{j}" for j in range(tasks))])]
    for t, row in enumerate(matrix.rows):
        lines.append(",".join([str(t), *(f"{value:.4f}" for value in row), *[""] * (tasks - len(row))]))
    return "\n".join(lines) + "\n"
