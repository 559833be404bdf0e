"""Runs a configuration: every seed through the stream, evaluated after every task, from where it was interrupted."""

from __future__ import annotations

import logging
from collections.abc import Callable

from delome.errors import RunFolderError
from delome.experiment.config import RunConfig
from delome.experiment.folder import RunFolder
from delome.experiment.results import RunResult, SeedResult, TaskResult
from delome.experiment.seed_folder import SeedFolder
from delome.experiment.signals import Stop
from delome.progress import Tracker
from delome.streams.cut import CutStream
from delome.streams.grouped import OrderedStream
from delome.streams.tasks import Stream, Task

log = logging.getLogger(__name__)

CHECKPOINT_EVERY = 60.0
"""Seconds between checkpoints inside a task."""


def run(
    config: RunConfig,
    stream: Stream,
    folder: RunFolder | None = None,
    make_tracker: Callable[[int, int, int], Tracker] = lambda *_: Tracker(),
    *,
    checkpoint_every: float = CHECKPOINT_EVERY,
    stop: Stop | None = None,
    keep_model: bool = True,
) -> RunResult:
    """Runs every seed, in ``folder`` from where it had been interrupted. ``make_tracker`` gets seed, task and number of
    tasks; ``stop`` can end the run early with `Stopped`. Without ``keep_model`` a finished seed leaves its results
    alone."""
    results = []
    stop = Stop() if stop is None else stop
    config.check_stream(stream)
    if folder is not None and (folder.config, folder.stream) != (config, stream.describe()):
        raise RunFolderError(f"'{folder.path}' was opened for another run: open it with this configuration and stream")
    resuming = folder is not None and folder.continues
    for seed in config.seeds:
        place = None if folder is None else SeedFolder(folder, seed, checkpoint_every, stop, keep_model)
        learner, result = config.learner(seed), SeedResult(seed)
        if place is not None:
            result = place.resume(learner, len(stream))
        remaining = list(stream)[len(result.tasks) :]
        for task in remaining:
            name = (
                "" if len(config.seeds) == 1 else f"seed {seed}, "
            ) + f"task {task.index} ({task.index + 1} of {len(stream)})"
            tracker = make_tracker(seed, task.index, len(stream))
            if place is not None:
                tracker.checkpoints = checkpoints = place.checkpoints(task.index)
                if resuming and (result.tasks or checkpoints.position):
                    log.warning("resuming at %s", ", ".join(filter(None, [name, checkpoints.position])))
                resuming = False
            learner.observe(task, tracker)
            with tracker.phase("evaluate"):
                seen = stream.seen(task)
                test, validation = learner.score(seen), learner.score(seen, "val")
                ahead = learner.score(_ahead(stream, task)) if learner.setting == "cil" else []
            result.tasks.append(
                TaskResult(
                    accuracies=[score.balanced for score in test],
                    micro=[score.micro for score in test],
                    validation=[score.balanced for score in validation],
                    validation_micro=[score.micro for score in validation],
                    seconds=tracker.seconds,
                    storage=learner.storage(),
                    report=learner.report(),
                    ahead=[score.balanced for score in ahead],
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
    names = list(stream.names) if isinstance(stream, CutStream) else []
    return RunResult(config, results, stream.dropped, stream.describe(), names)


def _ahead(stream: Stream, task: Task) -> list[Task]:
    """Tasks that are asked about before they are learned, of a stream that has such."""
    return stream.ahead(task) if isinstance(stream, OrderedStream) else []


def _in_short(result: SeedResult) -> str:
    """What a person who waits wants to know after each task."""
    forgetting = "" if result.matrix.af is None else f", AF {result.matrix.af:+.1f}"
    return f"AA {result.matrix.aa:.1f}{forgetting}, {sum(result.tasks[-1].seconds.values()):.1f} s"
