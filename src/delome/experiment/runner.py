"""Runs a configuration: every seed through the stream, evaluated after every task, from where it was interrupted."""

from __future__ import annotations

import logging
from collections.abc import Callable

from delome.durable import is_there, read_document, remove_leftovers
from delome.errors import RunFolderError, StorageError
from delome.experiment.config import RunConfig
from delome.experiment.folder import RunFolder
from delome.experiment.journal import Stop, TaskJournal
from delome.experiment.results import RunResult, SeedResult, TaskResult
from delome.foreign import MOST_DOCUMENT, holds, sha256_of
from delome.methods import Learner
from delome.metrics import AccuracyMatrix
from delome.parameters import values_of
from delome.saved import KIND as LEARNER_KIND
from delome.saved import restore, write
from delome.store import MANIFEST, is_intact, load_state, remove_state
from delome.stream import TaskStream
from delome.tracking import Tracker

log = logging.getLogger(__name__)

RESULT, RESULT_KIND = "result.json", "result of a run"
MATRIX = "matrix.csv"
BYTES_PER_CELL = 200
"""Bytes of a result for each pair of tasks, in seven lists of accuracies."""

CHECKPOINT_EVERY = 60.0
"""Seconds between checkpoints inside a task."""


def run(
    config: RunConfig,
    stream: TaskStream,
    folder: RunFolder | None = None,
    make_tracker: Callable[[SeedResult, int, int], Tracker] = lambda *_: Tracker(),
    *,
    checkpoint_every: float = CHECKPOINT_EVERY,
    stop: Stop | None = None,
) -> RunResult:
    """Runs every seed, in ``folder`` from where it had been interrupted. ``make_tracker`` gets seed, task and number of
    tasks; ``stop`` can end the run early with `Stopped`."""
    results = []
    stop = Stop() if stop is None else stop
    config.check_stream(stream)
    if folder is not None and (folder.config, folder.stream) != (config, stream.describe()):
        raise RunFolderError(f"'{folder.path}' was opened for another run: open it with this configuration and stream")
    resuming = folder is not None and folder.continues
    for seed in config.seeds:
        place = None if folder is None else SeedFolder(folder, seed, checkpoint_every, stop)
        learner, result = config.learner(seed), SeedResult(seed)
        if place is not None:
            result = place.take_up(learner, len(stream))
        remaining = list(stream)[len(result.tasks) :]
        for task in remaining:
            name = ("" if len(config.seeds) == 1 else f"seed {seed}, ") + f"task {task.index + 1} of {len(stream)}"
            tracker = make_tracker(result, task.index, len(stream))
            if place is not None:
                tracker.journal = journal = place.journal(task.index)
                if resuming:
                    log.warning("resuming at %s", ", ".join(filter(None, [name, journal.position])))
                    resuming = False
            learner.observe(task, tracker)
            with tracker.phase("evaluate"):
                seen = stream.seen(task)
                test, validation = learner.score(seen), learner.score(seen, "val")
            result.tasks.append(
                TaskResult(
                    accuracies=[score.balanced for score in test],
                    micro=[score.micro for score in test],
                    validation=[score.balanced for score in validation],
                    validation_micro=[score.micro for score in validation],
                    seconds=tracker.seconds,
                    storage=learner.storage(),
                    report=learner.report(),
                )
            )
            log.info("%s: %s", name, _in_short(result))
            if place is not None:
                with tracker.phase("checkpoint"):
                    place.finish_task(learner, result, last=task.index == len(stream) - 1)
        if place is not None and not remaining:
            place.finish(learner, result)
        results.append(result)
    if folder is not None:
        folder.event("finished")
    return RunResult(config, results, stream.dropped, stream.describe())


def _in_short(result: SeedResult) -> str:
    """What a person who waits wants to know after each task."""
    forgetting = "" if result.matrix.af is None else f", AF {result.matrix.af:+.1f}"
    return f"AA {result.matrix.aa:.1f}{forgetting}, {sum(result.tasks[-1].seconds.values()):.1f} s"


class SeedFolder:
    """The part of a run folder that belongs to one seed."""

    def __init__(self, folder: RunFolder, seed: int, every: float, stop: Stop) -> None:
        self.folder, self.seed, self.every, self.stop = folder, seed, every, stop
        self.run = folder.identity
        self.name = f"seed-{seed}"
        self.path = folder.path / self.name
        self.model, self.progress = self.path / "model", self.path / "progress"
        self.finished = False

    def take_up(self, learner: Learner, tasks: int) -> SeedResult:
        """Results of those of so many tasks that need not be learned again; the learner becomes the one that has
        learned them, unless it was the last."""
        result, file = SeedResult(self.seed), self.path / RESULT
        if is_there(file):
            try:
                found = read_document(file, RESULT_KIND, MOST_DOCUMENT + BYTES_PER_CELL * tasks**2)
                result, self.finished, run = SeedResult.from_dict(found), found["finished"], found["run"]
            except StorageError as error:
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
            remove_leftovers(self.path)
            known = self._load(learner)
            if known > len(result.tasks):
                raise RunFolderError(
                    f"'{self.path}' is damaged: its model knows {known} tasks, but results are there of "
                    f"{len(result.tasks)}: start over with --fresh"
                )
            # what was measured without its model being saved has to be done again
            del result.tasks[known:]
        return result

    def _refuse_links(self) -> None:
        """A run removes files of its own in these folders: a link would have it do so elsewhere."""
        for place in (self.path, self.model, self.progress):
            if place.is_symlink():
                raise RunFolderError(f"'{place}' is a link: put the folder that it leads to in its place")

    def _note_changes(self, result: SeedResult, manifest: str | None) -> None:
        """Notes what of a finished seed is gone or another; ``manifest`` is the checksum of its model's."""
        parts = {
            self.model: is_intact(self.model, LEARNER_KIND, manifest),
            self.path / MATRIX: holds(self.path / MATRIX, _csv(result.matrix).encode()),
        }
        for place in (place for place, intact in parts.items() if not intact):
            log.warning("'%s' is gone, or not as the run left it", place)

    def _load(self, learner: Learner) -> int:
        """Makes the learner the one that was saved, if there is one, and gives the number of tasks it knows."""
        if not is_there(self.model / MANIFEST):
            return 0
        try:
            about, state = load_state(self.model, LEARNER_KIND)
            if about.get("parameters") != values_of(learner):
                raise StorageError(f"'{self.model}' was not saved by this run")
            restore(learner, state, self.model)
        except StorageError as error:
            raise RunFolderError(f"{error}: start over with --fresh") from None
        return len(learner.columns.tasks)

    def journal(self, task: int) -> TaskJournal:
        """Where the learner leaves what it reaches inside a task."""

        def written(phase: str, done: int) -> None:
            self.folder.event("checkpoint", seed=self.seed, task=task, phase=phase, done=done)
            log.debug("checkpoint: %s step %d", phase, done)

        of = {"run": self.run, "seed": self.seed}
        self.folder.add_folder(self.name)
        return TaskJournal(self.progress, of, task, self.every, self.stop, self.folder.check, written)

    def finish_task(self, learner: Learner, result: SeedResult, last: bool) -> None:
        """Writes what was measured and then what was learned, so that nothing is learned without its result."""
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
        """Does what a life that ended after its last task could not do any more."""
        if not self.finished:
            self._settle(learner)
            self._write_result(result, finished=True)

    def _settle(self, learner: Learner) -> None:
        """Writes what was learned, after which the steps that led there are not needed."""
        self.folder.check()
        write(learner, self.model)
        remove_state(self.progress)

    def _write_result(self, result: SeedResult, finished: bool) -> None:
        content = {"run": self.run, **result.as_dict(), "finished": finished}
        if finished:
            content["model"] = sha256_of(self.model / MANIFEST)
        self.folder.write_document(f"{self.name}/{RESULT}", RESULT_KIND, content)


def _csv(matrix: AccuracyMatrix) -> str:
    """One line a task learned, one column a task evaluated; empty where a task was not yet seen."""
    tasks = len(matrix.rows)
    lines = [",".join(["after_task", *(f"task_{j}" for j in range(tasks))])]
    for t, row in enumerate(matrix.rows):
        lines.append(",".join([str(t), *(f"{value:.4f}" for value in row), *[""] * (tasks - len(row))]))
    return "\n".join(lines) + "\n"
