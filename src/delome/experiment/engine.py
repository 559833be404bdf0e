"""Where jobs run: processes of this machine (joblib), or a Ray cluster."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from threading import Lock, Thread
from typing import Any, Protocol, Self, TypeAlias

import joblib
import psutil
import torch

from delome.errors import ParameterError
from delome.experiment.options import CLUSTERS

WORKER_BYTES = 600 << 20
"""What a worker needs for its libraries."""

POLL = 2.0
"""Seconds between looks of a worker at whether it is still wanted."""


class Died:
    """The answer of a worker that ended without one: it was killed, or ran out of memory."""


Answer: TypeAlias = tuple[Any, Any]
"""What was asked, and the answer: that of the function, or `Died`."""


class Engine(Protocol):
    """Calls a function with what is common to all, and each of some items, in ``jobs`` processes of ``threads``.

    Answers come as they are ready. Items are taken only when a worker is free for them.
    """

    jobs: int
    threads: int

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def map(self, function: Callable[[Any, Any], Any], common: Any, items: Iterable[Any]) -> Iterator[Answer]: ...


def check_engine(cluster: str, jobs: int | None) -> None:
    """Refuses what is no engine."""
    if cluster not in CLUSTERS:
        raise ParameterError(f"cluster must be one of {', '.join(CLUSTERS)}, not '{cluster}'")
    if jobs is not None and jobs < 1:
        raise ParameterError(f"jobs must be at least 1, not {jobs}")


def engine(cluster: str, jobs: int | None, bytes_each: int) -> Engine:
    """The engine of a name; by default as many jobs as fit."""
    check_engine(cluster, jobs)
    return Processes(jobs or fitting_jobs(bytes_each)) if cluster == "local" else RayTasks(jobs)


def fitting_jobs(bytes_each: int) -> int:
    """How many jobs that need so much memory fit into this machine."""
    available = psutil.virtual_memory().available
    return max(1, min(int(joblib.cpu_count()), int(0.8 * available) // (WORKER_BYTES + bytes_each)))


class Processes:
    """Processes of this machine that share evenly the threads that torch may use here; large arrays reach them mapped
    into memory. They end with the process that started them, however that ends."""

    def __init__(self, jobs: int) -> None:
        self.jobs, self.threads = jobs, max(1, min(torch.get_num_threads(), joblib.cpu_count() // jobs))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def map(self, function: Callable[[Any, Any], Any], common: Any, items: Iterable[Any]) -> Iterator[Answer]:
        remaining = iter(items)
        while died := (yield from self._side_by_side(function, common, remaining)):
            # when a worker dies the others are ended, too: whose it was shows when each runs alone
            for item in died:
                if len(died) == 1 or (yield from self._side_by_side(function, common, iter([item]))):
                    yield item, Died()

    def _side_by_side(
        self, function: Callable[[Any, Any], Any], common: Any, items: Iterator[Any]
    ) -> Generator[Answer, None, list[Any]]:
        """Answers until all items have one, or a worker dies; gives the items that were running then."""
        begun: list[Any] = []
        work = joblib.delayed(partial(_numbered, os.getpid()))
        calls = (work(number, function, common, item) for number, item in _noted(items, begun))
        try:
            with joblib.parallel_config("loky", inner_max_num_threads=self.threads, mmap_mode="c"):
                # one at a time: each takes long, and none may wait for others to fill a batch
                workers = joblib.Parallel(
                    self.jobs, return_as="generator_unordered", batch_size=1, pre_dispatch=self.jobs
                )
                for number, answer in workers(calls):
                    item, begun[number] = begun[number], None
                    yield item, answer
            return []
        except joblib.externals.loky.process_executor.TerminatedWorkerError:
            return [item for item in begun if item is not None]


def _noted(items: Iterator[Any], begun: list[Any]) -> Iterator[tuple[int, Any]]:
    for item in items:
        begun.append(item)
        yield len(begun) - 1, item


def _numbered(driver: int, number: int, function: Callable[[Any, Any], Any], common: Any, item: Any) -> tuple[int, Any]:
    if os.getpid() == driver:  # a single job at a time needs no worker
        return number, function(common, item)
    _end_with(driver)
    with _busy:
        return number, function(common, item)


_busy = Lock()
"""Held while this worker has an item."""


@cache
def _end_with(driver: int) -> None:
    """Has a worker end when the process that started it is gone, which may have been killed before it could say so.

    An idle worker would keep its memory for minutes; a busy one finishes, or stops, before it ends.
    """

    def watch() -> None:
        while os.getppid() == driver:
            time.sleep(POLL)
        with _busy:
            os._exit(1)

    if os.getppid() == driver:  # else a missing parent would prove nothing
        Thread(target=watch, daemon=True).start()


class RayTasks:
    """Tasks of a Ray cluster: the one at ``RAY_ADDRESS``, or one that is started here.

    Not through Ray's backend of joblib, which gives its answers all at once, and none if one worker dies.
    """

    def __init__(self, jobs: int | None) -> None:
        self.jobs, self.threads = jobs or 0, 1
        self._open = ExitStack()

    def __enter__(self) -> Self:
        ray = self._open.enter_context(_connected(self.jobs or None))
        self.jobs = self.jobs or int(ray.cluster_resources().get("CPU", 1))
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def map(self, function: Callable[[Any, Any], Any], common: Any, items: Iterable[Any]) -> Iterator[Answer]:
        import ray

        remote = ray.remote(num_cpus=1, max_retries=0)(function)
        shared = ray.put(common)
        remaining, running = iter(items), dict[Any, Any]()
        while True:
            while len(running) < self.jobs and (item := next(remaining, _END)) is not _END:
                running[remote.remote(shared, item)] = item
            if not running:
                return
            ready, _ = ray.wait(list(running))
            item = running.pop(ready[0])
            try:
                yield item, ray.get(ready[0])
            except (ray.exceptions.WorkerCrashedError, ray.exceptions.OutOfMemoryError, ray.exceptions.NodeDiedError):
                yield item, Died()


_END = object()


@contextmanager
def _connected(cores: int | None) -> Iterator[Any]:
    try:
        import ray
    except ImportError:
        raise ParameterError("--cluster ray needs Ray: pip install 'delome[ray]'") from None
    started = not ray.is_initialized()
    if started:
        own: dict[str, Any] = {} if os.environ.get("RAY_ADDRESS") else {"num_cpus": cores, "include_dashboard": False}
        with warnings.catch_warnings(action="ignore"):
            ray.init(log_to_driver=False, configure_logging=False, **own)
    try:
        yield ray
    finally:
        if started:
            ray.shutdown()
