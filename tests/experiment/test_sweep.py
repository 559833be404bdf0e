from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import chdir, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from delome import Graph, load_graph
from delome.datasets.fetching.reading import silent
from delome.experiment import RunConfig, RunFolder, Stop, Stopped, run
from delome.experiment import sweep as sweep_module
from delome.experiment.engine import Answer, Processes
from delome.experiment.plan import Plan
from delome.experiment.seed_folder import RESULT_KIND
from delome.experiment.sweep import SHARED, Sweep, run_sweep, survey
from delome.experiment.worker import Job, Orders, work
from delome.persistence.documents import read_document
from delome.persistence.files import write_bytes
from delome.persistence.lock import sole_writer
from delome.streams.cut import CutStream

SMALL = "synthetic:nodes=60,classes=4"
PLAN = Plan({"dataset": SMALL, "method": ["finetune", "delome"], "budget": [2, 3], "seeds": 2, "epochs": 3})


def matrices(out: Path) -> dict[str, object]:
    files = sorted(out.glob("synthetic-*/seed-*/result.json"))
    return {str(file.relative_to(out)): read_document(file, RESULT_KIND)["matrix"] for file in files}


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """What single runs measure."""
    out = tmp_path_factory.mktemp("single")
    for config in PLAN.configs():
        with RunFolder.open(out / config.slug, config, config.stream()) as folder:
            run(config, config.stream(), folder)
    return matrices(out)


def test_a_sweep_measures_what_single_runs_do(tmp_path: Path, reference: dict[str, object]) -> None:
    seen: list[int] = []
    state = run_sweep(PLAN.configs(), tmp_path, jobs=2, watch=lambda state: seen.append(len(state.done)))
    assert (len(state.done), state.failed, state.found) == (6, {}, 0)
    assert matrices(tmp_path) == reference
    assert seen[-1] == 6
    assert not list(tmp_path.glob("*/seed-*/model")) and not list(tmp_path.glob(f"{SHARED}*"))


def test_only_what_is_missing_is_run(tmp_path: Path, reference: dict[str, object]) -> None:
    some = Plan({**PLAN.options, "method": "finetune", "seeds": 1})
    run_sweep(some.configs(), tmp_path, jobs=1)
    before = {file: file.stat().st_mtime_ns for file in tmp_path.glob("*/seed-*/result.json")}
    state = run_sweep(PLAN.configs(), tmp_path, jobs=1, keep_models=True)
    assert (state.found, len(state.done)) == (1, 6)
    assert {file: file.stat().st_mtime_ns for file in before} == before
    assert matrices(tmp_path) == reference
    assert len(list(tmp_path.glob("*/seed-*/model/manifest.json"))) == 5
    assert run_sweep(PLAN.configs(), tmp_path, jobs=1).found == 6


def test_a_sweep_finds_the_seeds_of_a_single_run(tmp_path: Path) -> None:
    config = RunConfig.resolve(SMALL, "finetune", epochs=3, seeds=2)
    with RunFolder.open(tmp_path / config.slug, config, config.stream()) as folder:
        run(config, config.stream(), folder)
    more = RunConfig.resolve(SMALL, "finetune", epochs=3, seeds=3)
    state = run_sweep([more], tmp_path, jobs=1)
    assert (state.found, len(state.done), len(list(tmp_path.iterdir()))) == (2, 3, 1)


def test_every_stream_is_cut_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cut: list[str] = []
    real = RunConfig.cut

    def counted(config: RunConfig, graph: Graph) -> CutStream:
        cut.append(config.stream_key)
        return real(config, graph)

    monkeypatch.setattr(RunConfig, "cut", counted)
    plan = Plan({"dataset": SMALL, "method": ["finetune", "delome"], "split_seed": [0, 1]})
    survey(plan.configs(), tmp_path, None, silent)
    assert len(cut) == len(set(cut)) == 2


class Elsewhere(Processes):
    """Works in this process, but in another folder, as a worker of a cluster does."""

    def __init__(self, folder: Path) -> None:
        super().__init__(jobs=1)
        self.folder = folder

    def map(self, function: Callable[[Any, Any], Any], common: Any, items: Iterable[Any]) -> Iterator[Answer]:
        for item in items:
            with chdir(self.folder):
                answer = function(common, item)
            yield item, answer


def test_workers_that_are_in_another_folder_write_where_they_should(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reference: dict[str, object]
) -> None:
    here, other = tmp_path / "here", tmp_path / "other"
    for folder in (here, other):
        folder.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setattr("delome.experiment.sweep.engine", lambda *_: Elsewhere(other))
    assert len(run_sweep(PLAN.configs(), Path("runs")).done) == 6
    assert matrices(here / "runs") == reference
    assert list(other.iterdir()) == []


@pytest.mark.parametrize("backwards", [False, True])
def test_a_configuration_that_is_sent_home_is_written_first_and_a_result_last(
    backwards: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = RunConfig.resolve(SMALL, "finetune", epochs=1)
    graph, away, home = load_graph(SMALL), tmp_path / "away", tmp_path / "home"
    orders = Orders(stop=away, probe=away, threads=1, checkpoint_every=60, keep_models=False, cache=None)
    outcome = work(Job(home / config.slug, 0, config), graph, orders)
    outcome = replace(outcome, files=dict(sorted(outcome.files.items(), reverse=backwards)))
    written: list[str] = []

    def write(file: Path, content: bytes) -> None:
        written.append(str(file.relative_to(home / config.slug)))
        write_bytes(file, content)

    monkeypatch.setattr(sweep_module, "write_bytes", write)
    sweep_module._unpack(outcome)
    assert (written[0], written[-1]) == ("config.json", "seed-0/result.json")
    assert set(written) == set(outcome.files)
    assert run_sweep([config], home, jobs=1).found == 1


def test_a_run_that_fails_does_not_stop_the_rest(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    plan = Plan({"dataset": SMALL, "method": "finetune", "epochs": 3, "set": {"lr": [0.005, 1e30]}})
    state = run_sweep(plan.configs(), tmp_path, jobs=1)
    assert len(state.done) == 1
    ((job, sentence),) = state.failed.items()
    assert job.config.parameters["lr"] == 1e30 and "not finite" in sentence
    assert f"seed 0 failed (2 of 2): {sentence}" in caplog.text
    assert len(list(tmp_path.iterdir())) == 1  # a run that fails at once leaves nothing


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Sets the time that a sweep sees."""

    def set_to(seconds: float) -> None:
        monkeypatch.setattr("delome.experiment.sweep.time.monotonic", lambda: seconds)

    return set_to


@pytest.fixture
def learned(tmp_path: Path) -> Callable[[Job, int], None]:
    """Makes a job look as if it were running and had learned so many tasks."""

    def make(job: Job, tasks: int) -> None:
        place = job.folder / f"seed-{job.seed}"
        place.mkdir(parents=True, exist_ok=True)
        (place / ".lock").touch()
        (place / "tasks.jsonl").write_text("{}\n" * tasks)

    return make


def test_the_time_that_is_left_is_reckoned_from_tasks_of_this_session(
    tmp_path: Path, clock: Callable[[float], None], learned: Callable[[Job, int], None]
) -> None:
    config = RunConfig.resolve(SMALL, "finetune")
    resumed, new, _ = jobs = [Job(tmp_path / name, 0, config) for name in ("resumed", "new", "waiting")]
    state = Sweep(jobs, dict.fromkeys(jobs, 10), before={resumed: 6}, start=100.0)
    learned(resumed, 6)
    learned(new, 0)
    clock(100)
    state.look()
    clock(110)
    assert state.remaining is None and set(state.remaining_of(state.running).values()) == {None}
    learned(resumed, 8)
    # two tasks in ten seconds: two are left of its own, and 2 + 10 + 10 of all
    assert state.remaining == pytest.approx(10 / 2 * 22)
    # a run without a task yet is as fast as two runs were in ten seconds, that is 10 s for each task of one run
    assert state.remaining_of(state.running) == {resumed: pytest.approx(10), new: pytest.approx(10 * 10 - 10)}
    learned(new, 5)
    assert state.remaining_of(state.running) == {resumed: pytest.approx(10), new: pytest.approx(10)}
    state.done.append(new)
    assert state.remaining == pytest.approx(10 / (2 + 10) * (2 + 10))


def test_a_lock_that_a_killed_process_left_does_not_make_a_run_seem_to_run(
    tmp_path: Path, learned: Callable[[Job, int], None]
) -> None:
    job = Job(tmp_path / "run", 0, RunConfig.resolve(SMALL, "finetune"))
    state = Sweep([job], {job: 2})
    learned(job, 1)
    with sole_writer(job.folder / "seed-0"):
        sweep_module._remove_stale_locks([job])
        assert state.running == {job: 1}
    learned(job, 1)
    sweep_module._remove_stale_locks([job])
    assert state.running == {}


def test_tasks_that_were_learned_before_are_counted_when_a_sweep_begins(tmp_path: Path) -> None:
    config = RunConfig.resolve(SMALL, "finetune", epochs=1, seeds=2)
    run_sweep([replace(config, seeds=[0])], tmp_path, jobs=1)
    (tmp_path / config.slug / "seed-0" / "result.json").unlink()
    state, *_ = survey([config], tmp_path, None, silent)
    assert list(state.before.values()) == [2, 0]


def test_a_run_that_is_refused_says_what_to_delete(tmp_path: Path) -> None:
    config = RunConfig.resolve(SMALL, "finetune", epochs=1)
    assert not run_sweep([config], tmp_path, jobs=1).failed
    place = tmp_path / config.slug
    for file, deleted in ((place / "seed-0" / "result.json", place / "seed-0"), (place / "config.json", place)):
        (place / "seed-0" / "result.json").unlink()
        file.write_text("{}")
        (sentence,) = run_sweep([config], tmp_path, jobs=1).failed.values()
        assert sentence.endswith(f"delete '{deleted}' to start over") and "--fresh" not in sentence
        shutil.rmtree(deleted)
        assert not run_sweep([config], tmp_path, jobs=1).failed


@pytest.mark.slow
def test_a_sweep_that_is_asked_to_stop_can_be_continued(tmp_path: Path, reference: dict[str, object]) -> None:
    stop = Stop()

    def watch(state: Sweep) -> None:
        if state.done:
            stop.signal_number = int(signal.SIGTERM)

    long = Plan({**PLAN.options, "epochs": 400, "seeds": 6})
    with pytest.raises(Stopped):
        run_sweep(long.configs(), tmp_path, jobs=1, watch=watch, stop=stop)
    finished = len(matrices(tmp_path))
    assert 0 < finished < 18
    state = run_sweep(PLAN.configs(), tmp_path, jobs=1)
    assert len(state.done) == 6
    assert {name: matrix for name, matrix in matrices(tmp_path).items() if name in reference} == reference


SCRIPT = """
import sys
from pathlib import Path
from delome.experiment.plan import Plan
from delome.experiment.sweep import run_sweep
if __name__ == "__main__":
    run_sweep(Plan({options}).configs(), Path(sys.argv[1]), jobs=2, checkpoint_every=0)
"""


@pytest.mark.slow
def test_a_sweep_survives_kills(tmp_path: Path, reference: dict[str, object]) -> None:
    script, out = tmp_path / "script.py", tmp_path / "out"
    script.write_text(SCRIPT.replace("{options}", repr(PLAN.options)))
    command = [sys.executable, str(script), str(out)]
    finished: dict[str, int] = {}
    for _ in range(5):
        driver = subprocess.Popen(command, start_new_session=True)
        before = len(finished)
        deadline = time.monotonic() + 60
        while driver.poll() is None and len(list(out.glob("synthetic-*/seed-*/result.json"))) <= before:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        with suppress(ProcessLookupError):  # it may have ended by itself
            os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
        for name, stamp in finished.items():
            assert (out / name).stat().st_mtime_ns == stamp  # nothing that was finished was computed again
        results = [
            file for file in out.glob("synthetic-*/seed-*/result.json") if json.loads(file.read_text())["finished"]
        ]
        finished = {str(file.relative_to(out)): file.stat().st_mtime_ns for file in results}
    subprocess.run(command, check=True)
    assert matrices(out) == reference
    for name, stamp in finished.items():
        assert (out / name).stat().st_mtime_ns == stamp


def processes(name: str, which: str) -> list[int]:
    listed = subprocess.run(
        ["ps", "-ww", "-o", "pid=,args=", *which.split()], capture_output=True, text=True, check=False
    )
    return [int(line.split()[0]) for line in listed.stdout.splitlines() if name in line]


@contextmanager
def killing_one(name: str, which: str, ready: Callable[[], bool]) -> Iterator[list[int]]:
    """Kills the first process of a name that is found, as soon as it may be."""
    killed: list[int] = []
    ended = Event()

    def look() -> None:
        while not killed and not ended.wait(0.01):
            for worker in processes(name, which)[:1] if ready() else []:
                killed.append(worker)
                os.kill(worker, signal.SIGKILL)

    looking = Thread(target=look)
    looking.start()
    try:
        yield killed
    finally:
        ended.set()
        looking.join()


@pytest.mark.slow
def test_a_worker_that_dies_costs_only_its_own_run(tmp_path: Path, reference: dict[str, object]) -> None:
    long = Plan({**PLAN.options, "epochs": 60, "seeds": 4})
    with killing_one("popen_loky_posix", f"--ppid {os.getpid()}", lambda: any(tmp_path.glob("*/seed-*"))) as killed:
        state = run_sweep(long.configs(), tmp_path, jobs=2)
    assert killed and (len(state.done), state.failed) == (12, {})


@pytest.mark.slow
@pytest.mark.parametrize("shared_disk", [True, False])
def test_a_ray_cluster_measures_the_same_though_a_worker_is_killed(
    shared_disk: bool, tmp_path: Path, reference: dict[str, object]
) -> None:
    import ray

    ray.init(num_cpus=2, log_to_driver=False, include_dashboard=False)
    try:
        with killing_one("ray::_work", "-e", lambda: True) as killed:
            state = run_sweep(PLAN.configs(), tmp_path, cluster="ray", shared_disk=shared_disk)
    finally:
        ray.shutdown()
    assert killed and (len(state.done), state.failed) == (6, {})
    assert matrices(tmp_path) == reference
