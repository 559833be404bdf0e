"""One job of a sweep: one seed of one run, in a process of its own."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from threadpoolctl import threadpool_limits

from delome.errors import DelomeError
from delome.experiment.config import RunConfig
from delome.experiment.folder import RunFolder, by_deleting
from delome.experiment.runner import run
from delome.experiment.signals import StopFile, Stopped
from delome.graph import Graph
from delome.streams.cut import CutStream

DONE, FAILED, STOPPED = "done", "failed", "stopped"


@dataclass(frozen=True)
class Job:
    """One seed of a run, and the run folder it belongs to."""

    folder: Path
    seed: int
    config: RunConfig = field(compare=False)


@dataclass(frozen=True)
class Orders:
    """What all jobs of a sweep have in common.

    ``probe`` is a file that a worker sees if it shares its disk with the driver; else it returns what it wrote.
    """

    stop: Path
    probe: Path
    threads: int
    checkpoint_every: float
    keep_models: bool
    cache: Path | None


@dataclass(frozen=True)
class Outcome:
    """How a job ended; ``sentence`` says why it failed, ``files`` are what it wrote where the driver cannot look."""

    job: Job
    status: str
    sentence: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    signal_number: int | None = None


_last: tuple[str, CutStream] | None = None
"""The stream of this process's last job, with what was computed of it."""


def work(job: Job, graph: Graph, orders: Orders) -> Outcome:
    """Runs a job, from where it was interrupted; whatever goes wrong in it is its outcome."""
    try:
        with _threads(orders.threads):
            if orders.probe.exists():
                _run(job, graph, orders)
                return Outcome(job, DONE)
            with TemporaryDirectory() as place:
                here = dataclasses.replace(job, folder=Path(place) / job.folder.name)
                _run(here, graph, orders)
                files = [file for file in here.folder.rglob("*") if file.is_file()]
                content = {str(file.relative_to(here.folder)): file.read_bytes() for file in files}
                return Outcome(job, DONE, files=content)
    except Stopped as stopped:
        return Outcome(job, STOPPED, signal_number=stopped.signal_number)
    except DelomeError as error:
        return Outcome(job, FAILED, str(error))
    except MemoryError:
        return Outcome(job, FAILED, "not enough memory for this run: give fewer --jobs, or a smaller budget or network")
    except Exception as error:  # one run must not end the others
        return Outcome(job, FAILED, f"{type(error).__name__}: {error}")


def _run(job: Job, graph: Graph, orders: Orders) -> None:
    stop = StopFile(orders.stop)
    stop.check()
    in_main_thread = threading.current_thread() is threading.main_thread()
    with stop.on_signals() if in_main_thread else nullcontext():
        stream = _stream(job.config, graph, orders.cache)
        with RunFolder.open(job.folder, job.config, stream, waiting=lambda: None, start_over=by_deleting) as folder:
            try:
                run(
                    job.config,
                    stream,
                    folder,
                    checkpoint_every=orders.checkpoint_every,
                    stop=stop,
                    keep_model=orders.keep_models,
                )
            except BaseException:
                folder.discard_if_empty()
                raise


def _stream(config: RunConfig, graph: Graph, cache: Path | None) -> CutStream:
    """The stream of a job: that of the last one, if it is the same."""
    global _last
    key = f"{config.stream_key} {graph.num_nodes} {graph.num_edges} {cache}"
    if _last is None or _last[0] != key:
        _last = None  # before the next is made
        graph.shared = cache
        _last = key, config.cut(graph)
    return _last[1]


@contextmanager
def _threads(number: int) -> Iterator[None]:
    """While this block runs, linear algebra uses so many threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        with threadpool_limits(number):
            yield
    finally:
        torch.set_num_threads(before)
