"""Sweep: the runs of a plan, side by side in one folder, each of them once."""

from __future__ import annotations

import dataclasses
import logging
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkdtemp

from delome.datasets import load_graph
from delome.datasets.fetching.reading import Progress, silent
from delome.errors import PersistenceError, RunFolderError
from delome.experiment.config import RunConfig
from delome.experiment.engine import Died, Engine, check_engine, engine
from delome.experiment.folder import CONFIG, EVENTS, identity_of
from delome.experiment.runner import CHECKPOINT_EVERY
from delome.experiment.seed_folder import RESULT, is_finished, tasks_done
from delome.experiment.signals import Stop
from delome.experiment.worker import DONE, FAILED, STOPPED, Job, Orders, Outcome, work
from delome.graph import Graph
from delome.persistence.documents import kind_of
from delome.persistence.files import make_folder, reporting_write_errors, write_bytes
from delome.persistence.lock import LOCK, sole_writer
from delome.persistence.state_files import MANIFEST
from delome.printable import counted
from delome.streams.cut import CutStream

log = logging.getLogger(__name__)

TRIES = 3
"""How often a job is begun whose worker dies."""

POLL = 0.5
"""Seconds between looks at what runs, and at whether somebody wants to stop."""

SHARED = ".shared-"


@dataclass
class Sweep:
    """How far the jobs of a plan are; ``failed`` are sentences by job.

    ``before`` counts the tasks of unfinished jobs that were learned before this session, and ``seen`` says when a job
    was first seen to run in it.
    """

    jobs: list[Job]
    tasks: dict[Job, int]
    before: dict[Job, int] = field(default_factory=dict)
    seen: dict[Job, float] = field(default_factory=dict)
    done: list[Job] = field(default_factory=list)
    found: int = 0
    failed: dict[Job, str] = field(default_factory=dict)
    stopped: bool = False
    start: float = field(default_factory=time.monotonic)

    @property
    def left(self) -> list[Job]:
        """Jobs that have not ended."""
        ended = {*self.done, *self.failed}
        return [job for job in self.jobs if job not in ended]

    @property
    def finished(self) -> frozenset[tuple[str, int]]:
        """Names of run folders and seeds whose whole results are there, of these configurations and streams."""
        return frozenset((job.folder.name, job.seed) for job in self.done)

    @property
    def running(self) -> dict[Job, int]:
        """Jobs that are running, and the tasks each has finished."""
        left = self.left
        return {
            job: tasks_done(job.folder, job.seed) for job in left if (job.folder / f"seed-{job.seed}" / LOCK).exists()
        }

    def look(self) -> None:
        """Notes which jobs have begun to run."""
        for job in self.running:
            self.seen.setdefault(job, time.monotonic())

    @property
    def remaining(self) -> float | None:
        """Seconds until all jobs are done, as fast as it has been so far; none before anything is done."""
        running = self.running
        steps = self._steps(running)
        left = sum(self.tasks[job] - running.get(job, self.before.get(job, 0)) for job in self.left)
        return (time.monotonic() - self.start) / steps * left if steps else None

    def remaining_of(self, running: Mapping[Job, int]) -> dict[Job, float | None]:
        """Seconds until each running job is done, as fast as it has been so far; before it has learned a task, as fast
        as jobs have been on average; none before any has."""
        now, steps = time.monotonic(), self._steps(running)
        of_a_task = (now - self.start) * len(running) / steps if steps else None
        found: dict[Job, float | None] = {}
        for job, tasks in running.items():
            passed, learned, left = now - self.seen.get(job, now), self._learned(job, tasks), self.tasks[job] - tasks
            if learned:
                found[job] = passed / learned * left
            else:
                found[job] = None if of_a_task is None else max(0.0, of_a_task * left - passed)
        return found

    def _learned(self, job: Job, tasks: int) -> int:
        """Tasks of a job that were learned in this session."""
        return max(0, tasks - self.before.get(job, 0))

    def _steps(self, running: Mapping[Job, int]) -> int:
        """Tasks of all jobs that were learned in this session."""
        ended = {job: self.tasks[job] for job in self.done[self.found :]}
        return sum(self._learned(job, tasks) for job, tasks in [*ended.items(), *running.items()])


def run_sweep(
    configs: Iterable[RunConfig],
    out: Path,
    *,
    jobs: int | None = None,
    cluster: str = "local",
    shared_disk: bool = True,
    keep_models: bool = False,
    checkpoint_every: float = CHECKPOINT_EVERY,
    data_root: Path | None = None,
    progress: Progress = silent,
    watch: Callable[[Sweep], None] = lambda _: None,
    stop: Stop | None = None,
) -> Sweep:
    """Runs every seed of every configuration that is not finished in ``out``, ``jobs`` at a time.

    A job that fails does not stop the others; one whose worker dies is begun again. ``watch`` is called now and then.
    Without a ``shared_disk`` the workers of a cluster send home what they wrote.
    """
    stop = Stop() if stop is None else stop
    check_engine(cluster, jobs)
    for file, what in ((CONFIG, "the folder of a single run"), (MANIFEST, "a saved learner")):
        if kind_of(out / file) is not None:
            raise RunFolderError(f"'{out}' is {what}: choose another folder with --out")
    out = out.absolute()  # a worker may have another current folder
    state, graphs, _ = survey(configs, out, data_root, progress)
    log.info("%s, %d of them finished before", counted(len(state.jobs), "run"), len(state.done))
    if not state.left:
        return state
    bytes_each = max(graph.nbytes + 4 * graph.num_nodes * graph.num_features for graph in graphs.values())
    with _place(out) as place, engine(cluster, jobs, bytes_each) as workers:
        (place / "probe").touch()
        orders = Orders(
            stop=place / "stop",
            probe=place / ("probe" if shared_disk else "none"),
            threads=workers.threads,
            checkpoint_every=checkpoint_every,
            keep_models=keep_models,
            cache=place,
        )
        _remove_stale_locks(state.left)
        with _looking(state, watch, stop, orders.stop):
            _run_all(state, workers, graphs, orders, stop)
    stop.check()
    return state


def survey(
    configs: Iterable[RunConfig], out: Path, data_root: Path | None, progress: Progress
) -> tuple[Sweep, dict[str, Graph], dict[str, CutStream]]:
    """All jobs, those that are done already, the graphs and the streams."""
    graphs: dict[str, Graph] = {}
    streams: dict[str, CutStream] = {}
    state = Sweep([], {})
    for config in configs:
        if config.dataset not in graphs:
            graphs[config.dataset] = load_graph(config.dataset, data_root=data_root, progress=progress)
        if (key := config.stream_key) not in streams:
            streams[key] = config.cut(graphs[config.dataset])
        stream = streams[key]
        identity = identity_of(config, stream.describe())
        for seed in config.seeds:
            job = Job(out / config.slug, seed, dataclasses.replace(config, seeds=[seed]))
            state.jobs.append(job)
            state.tasks[job] = len(stream)
            if is_finished(job.folder, identity, seed):
                state.done.append(job)
            else:
                state.before[job] = tasks_done(job.folder, seed)
    state.found = len(state.done)
    state.start = time.monotonic()
    return state, graphs, streams


def _remove_stale_locks(jobs: Iterable[Job]) -> None:
    """Removes the locks that killed processes have left: their jobs would seem to run before they do."""
    for job in jobs:
        place = job.folder / f"seed-{job.seed}"
        if (place / LOCK).exists():
            with suppress(OSError, PersistenceError), sole_writer(place):
                pass  # a lock that is released is removed


def _run_all(state: Sweep, workers: Engine, graphs: dict[str, Graph], orders: Orders, stop: Stop) -> None:
    tries = dict.fromkeys(state.left, 0)
    while not stop.asked and any(job not in state.failed and job not in state.done for job in tries):
        for job, outcome in workers.map(_work, (graphs, orders), _until(stop, state.left)):
            if isinstance(outcome, Died):
                tries[job] += 1
                if tries[job] == TRIES:
                    _note(state, Outcome(job, FAILED, f"its worker died {TRIES} times: is there enough memory?"))
            elif outcome.status == STOPPED:
                stop.signal_number = stop.signal_number or outcome.signal_number
            else:
                _note(state, outcome)


def _until(stop: Stop, jobs: list[Job]) -> Iterator[Job]:
    for job in jobs:
        if stop.asked:
            return
        yield job


def _work(common: tuple[dict[str, Graph], Orders], job: Job) -> Outcome:
    graphs, orders = common
    return work(job, graphs[job.config.dataset], orders)


def _note(state: Sweep, outcome: Outcome) -> None:
    job = outcome.job
    if outcome.status == DONE:
        try:
            _unpack(outcome)
            state.done.append(job)
        except PersistenceError as error:
            state.failed[job] = str(error)
    else:
        state.failed[job] = outcome.sentence
    ended = f"{len(state.done) + len(state.failed)} of {len(state.jobs)}"
    if job in state.failed:
        log.warning("%s failed (%s): %s", name_of(job), ended, state.failed[job])
    else:
        log.info("%s is done (%s)", name_of(job), ended)


def _unpack(outcome: Outcome) -> None:
    """Writes what a worker has sent home.

    The configuration comes first and the result last: a folder with a result but no configuration would be refused, and
    a result says that everything else is there.
    """
    for name in sorted(outcome.files, key=lambda name: (Path(name).name == RESULT, name != CONFIG)):
        file, content = outcome.job.folder / name, outcome.files[name]
        with reporting_write_errors(file):
            make_folder(file.parent)
            if file.name == EVENTS and file.exists():  # of another seed
                content = file.read_bytes() + content
            write_bytes(file, content)


def name_of(job: Job) -> str:
    """A job in words."""
    return f"{job.folder.name}, seed {job.seed}"


@contextmanager
def _place(out: Path) -> Iterator[Path]:
    """A folder for what processes share while a sweep runs; those of killed sweeps are removed."""
    with reporting_write_errors(out):
        make_folder(out)
        for left in out.glob(f"{SHARED}*/"):
            with suppress(OSError, PersistenceError), sole_writer(left):
                shutil.rmtree(left)
        place = Path(mkdtemp(prefix=SHARED, dir=out)).resolve()
    try:
        with sole_writer(place):
            yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


@contextmanager
def _looking(state: Sweep, watch: Callable[[Sweep], None], stop: Stop, stop_file: Path) -> Iterator[None]:
    """While this block runs, somebody is shown how far it is, and workers learn that they are to stop."""
    over = threading.Event()

    def look() -> None:
        while not over.wait(POLL):
            state.look()
            watch(state)
            if stop.asked:
                state.stopped = True
                with suppress(OSError):
                    stop_file.touch()

    looking = threading.Thread(target=look, daemon=True)
    looking.start()
    try:
        yield
    finally:
        over.set()
        looking.join()
        watch(state)
