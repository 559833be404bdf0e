from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import joblib
import psutil
import pytest
import torch

from delome.errors import ParameterError
from delome.experiment.engine import Died, Processes, engine, fitting_jobs


def sum_of(common: int, item: int) -> int:
    return common + item


def test_every_item_is_answered_and_taken_only_when_a_worker_is_free() -> None:
    taken: list[int] = []

    def items() -> Iterator[int]:
        for item in range(5):
            taken.append(item)
            yield item

    with Processes(1) as workers:
        for number, (item, answer) in enumerate(workers.map(sum_of, 10, items())):
            assert answer == 10 + item
            assert len(taken) <= number + 2
    assert taken == [0, 1, 2, 3, 4]


@pytest.mark.slow
def test_of_items_that_run_side_by_side_only_the_one_whose_worker_dies_has_no_answer(tmp_path: Path) -> None:
    def work(begun: Path, item: str) -> str:
        if item == "innocent":
            begun.touch()
            time.sleep(0.3)
        while not begun.exists():
            time.sleep(0.01)
        if item == "culprit":
            os._exit(1)
        return item.upper()

    with Processes(2) as workers:
        found = dict(workers.map(work, tmp_path / "begun", ["culprit", "innocent", "later"]))
    assert isinstance(found.pop("culprit"), Died)
    assert found == {"innocent": "INNOCENT", "later": "LATER"}


DRIVER = """
import os, sys, time
from delome.experiment.engine import Processes

def work(common, item):
    time.sleep(0.5)  # so that the other worker gets an item, too
    return os.getpid()

if __name__ == "__main__":
    with Processes(2) as workers:
        print(*{worker for _, worker in workers.map(work, None, range(4))}, flush=True)
        sys.stdin.read()
"""


@pytest.mark.slow
def test_idle_workers_end_when_their_driver_is_killed(tmp_path: Path) -> None:
    (tmp_path / "driver.py").write_text(DRIVER)
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, tmp_path / "driver.py"], stdin=pipe, stdout=pipe, text=True) as driver:
        assert driver.stdout is not None
        workers = [psutil.Process(int(number)) for number in driver.stdout.readline().split()]
        assert len(workers) == 2 and all(worker.ppid() == driver.pid for worker in workers)
        driver.kill()
    _, alive = psutil.wait_procs(workers, timeout=30)
    assert [worker for worker in alive if worker.status() != psutil.STATUS_ZOMBIE] == []


def test_jobs_share_the_threads_that_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joblib, "cpu_count", lambda: 8)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 8)
    assert [Processes(jobs).threads for jobs in (1, 2, 3, 16)] == [8, 4, 2, 1]
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    assert Processes(1).threads == 1


def test_as_many_jobs_as_fit_into_cores_and_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joblib, "cpu_count", lambda: 8)
    assert fitting_jobs(0) <= 8
    assert fitting_jobs(1 << 60) == 1
    assert engine("local", None, 1 << 60).jobs == 1 and engine("local", 5, 1 << 60).jobs == 5


@pytest.mark.parametrize(("cluster", "jobs"), [("slurm", 1), ("local", 0)])
def test_what_is_no_engine_is_refused(cluster: str, jobs: int) -> None:
    with pytest.raises(ParameterError, match=r"cluster must be one of local, ray|jobs must be at least 1"):
        engine(cluster, jobs, 0)
