from __future__ import annotations

import json
import re
import resource
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
import typer

import delome
from delome import Learner
from delome.cli import app
from delome.errors import PersistenceError
from delome.experiment import RunConfig, RunFolder, RunResult
from delome.experiment.folder import CONFIG_KIND
from delome.experiment.seed_folder import RESULT_KIND, TASKS_KIND
from delome.persistence.documents import read_document, read_documents
from delome.persistence.files import append_line
from delome.persistence.state import State

Cli = Callable[..., Any]
Left = Callable[[Path], dict[str, Any]]

TINY = "synthetic:nodes=24,classes=4,features=4,noise=4"
Snapshot = Callable[[Path], dict[str, Any]]
Ask = Callable[..., dict[str, Any]]
FAILURES = {
    "fail": ("Input/output error", "one call fails"),
    "stay broken": ("Input/output error", "from one call on, all fail"),
    "stay full": ("No space left on device", "from one call on, all that need space fail"),
}


@pytest.fixture
def config() -> RunConfig:
    return RunConfig.resolve(TINY, "replay", budget=2, epochs=1, assignments=["hidden=2"])


@pytest.fixture
def command(folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """The same as a command line; a note takes the place of its pictures and report, which take longer than all
    else."""

    def note(folder: RunFolder, result: RunResult) -> list[Path]:
        return [folder.write("note.txt", lambda temporary: temporary.write_text(str(result.aa[0])))]

    monkeypatch.setattr("delome.reporting.figures.write_figures", note)
    monkeypatch.setattr("delome.reporting.writing.leave_report", lambda folder: None)
    monkeypatch.setattr("delome.cli.app", typer.main.get_command(app))  # made once, not for every call
    return (
        "run", "--dataset", TINY, "--method", "replay", "--budget", "2", "--epochs", "1", "--set", "hidden=2",
        "--checkpoint-every", "0", "--json", "--out", str(folder / "run"),
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("event", ["fail", "stay full"])
def test_a_run_on_a_failing_disk_ends_with_a_sentence_and_goes_on_when_the_disk_is_mended(
    event: str,
    config: RunConfig,
    command: tuple[str, ...],
    cli: Cli,
    folder: Path,
    lives: Any,
    left: Left,
    show: Callable[[str], None],
) -> None:
    run, reason = folder / "run", FAILURES[event][0]
    stream = config.stream()
    with lives.Disk(run).watched() as disk:
        assert cli(*command).code == 0
    calls, wanted = disk.calls, left(run)
    shutil.rmtree(run)
    unnoticed = 0
    for at, (call, name) in enumerate(calls):
        with lives.Disk(run, at, event).watched():
            ended = cli(*command)
        where = f"{event} at call {at}, {call} {name}: {ended}"
        if ended.code == 0:
            # what could not be removed, or made once more, harms nobody
            assert call in ("unlink", "close", "rmdir", "mkdir"), where
            unnoticed += Path(name).name != ".lock"
        else:
            assert ended.code == 2, where
            assert ended.out == "", where
            (error,) = ended.notes
            told = re.fullmatch(rf"cannot write '(.+)': {reason}", json.loads(error)["error"])
            assert told, where
            failed, named = run / name, Path(told[1])
            # a lock that cannot be removed is no failure; on a disk that stays full the next write is one
            left_over = call in ("unlink", "close") and failed.name == ".lock"
            assert left_over or named.is_relative_to(failed) or failed.is_relative_to(named.parent), where
        check_all_is_readable(run)
        with lives.Disk(run).watched():
            lives.live(config, stream, run)
        assert left(run) == wanted, where
        shutil.rmtree(run)
    show(f"{FAILURES[event][1]}: {len(calls)} faults survived, {unnoticed} of them without a word")
    assert unnoticed < 30
    assert len(calls) > 200


def check_all_is_readable(run: Path) -> None:
    """Whatever a run has left can be read."""
    if (run / "config.json").exists():
        read_document(run / "config.json", CONFIG_KIND)
    for result in run.glob("seed-*/result.json"):
        read_document(result, RESULT_KIND)
    for results in run.glob("seed-*/tasks.jsonl"):
        read_documents(results, TASKS_KIND)
    for manifest in run.glob("seed-*/model/manifest.json"):
        delome.load(manifest.parent)


def check_is(folder: Path, learner: Learner) -> None:
    """The folder holds this learner."""
    assert is_state(delome.load(folder).state(), learner.state())


def is_state(found: State, wanted: State) -> bool:
    return (
        found.values == wanted.values
        and found.tensors.keys() == wanted.tensors.keys()
        and all(torch.equal(found.tensors[name], wanted.tensors[name]) for name in wanted.tensors)
    )


@pytest.fixture
def saved(config: RunConfig, lives: Any, tmp_path: Path) -> tuple[Path, Learner, Learner]:
    """A saved learner, and what it has become since."""
    stream = config.stream()
    old, new = lives.learned(config, stream, 1), lives.learned(config, stream, 2)
    old.save(tmp_path / "old")
    return tmp_path / "old", old, new


@pytest.mark.parametrize("event", FAILURES)
def test_a_saved_learner_stays_until_the_next_one_is_complete_on_a_failing_disk(
    event: str, saved: tuple[Path, Learner, Learner], lives: Any, snapshot: Snapshot, tmp_path: Path
) -> None:
    kept, old, new = saved
    shutil.copytree(kept, tmp_path / "new")
    with lives.Disk(tmp_path / "new").watched() as disk:
        new.save(tmp_path / "new")
    new.save(tmp_path / "alone")
    wanted = snapshot(tmp_path / "alone")
    assert snapshot(tmp_path / "new") == wanted
    assert len(disk.calls) > 40
    found = []
    for at in range(len(disk.calls)):
        folder = tmp_path / str(at)
        shutil.copytree(kept, folder)
        try:
            with lives.Disk(folder, at, event).watched():
                new.save(folder)
        except PersistenceError as error:
            assert re.fullmatch(rf"cannot write '{folder}': {FAILURES[event][0]}", str(error))
            state = delome.load(folder).state()
            found.append(is_state(state, new.state()))
            assert found[-1] or is_state(state, old.state())
        else:
            check_is(folder, new)
        new.save(folder)
        assert snapshot(folder) == wanted
    assert {False, True} == set(found)


@pytest.mark.slow
def test_a_saved_learner_stays_until_the_next_one_is_complete_when_the_writer_is_killed(
    config: RunConfig, saved: tuple[Path, Learner, Learner], life: Ask, snapshot: Snapshot, tmp_path: Path, show: Any
) -> None:
    kept, old, new = saved
    shutil.copytree(kept, tmp_path / "new")
    calls = life(config, tmp_path / "new", tasks=2, tell=True)["calls"]
    new.save(tmp_path / "alone")
    wanted = snapshot(tmp_path / "alone")
    assert snapshot(tmp_path / "new") == wanted
    found = []
    for at, (call, _) in enumerate(calls):
        for event in ("kill before", "kill half way", "kill after"):
            if event == "kill half way" and call != "write":
                continue
            folder = tmp_path / f"{at} {event}"
            shutil.copytree(kept, folder)
            assert life(config, folder, tasks=2, at=at, event=event)["ended"] == -signal.SIGKILL
            state = delome.load(folder).state()
            found.append(is_state(state, new.state()))
            assert found[-1] or is_state(state, old.state())
            new.save(folder)
            assert snapshot(folder) == wanted
    show(f"{len(calls)} calls of a save: {len(found)} kills survived")
    assert found == sorted(found) and {False, True} == set(found)


def test_content_is_on_the_disk_before_it_gets_its_name_and_the_name_before_anything_else_does(
    config: RunConfig, lives: Any, tmp_path: Path
) -> None:
    with lives.Disk(tmp_path / "run").watched() as disk:
        lives.live(config, config.stream(), tmp_path / "run")
    named = [number for number, (call, _) in enumerate(disk.calls) if call == "replace"]
    assert len(named) > 10
    for number, next_number in zip(named, [*named[1:], len(disk.calls)], strict=True):
        file = disk.calls[number][1]
        own = [call for call, name in disk.calls[:number] if name == file]
        assert own.index("write") < own.index("fsync"), file
        assert ("fsync", str(Path(file).parent)) in disk.calls[number:next_number], file
    logged = [call for call, name in disk.calls if name == "events.jsonl"]
    assert logged.count("write") == logged.count("fsync") > 5
    results = [call for call, name in disk.calls if name == "seed-0/tasks.jsonl"]
    assert results.count("write") == results.count("fsync") == 2
    first = disk.calls.index(("fsync", "seed-0/tasks.jsonl"))
    # results and their name are on the disk before the model that they belong to
    model = next(number for number, (_, name) in enumerate(disk.calls) if name.startswith("seed-0/model"))
    assert ("fsync", "seed-0") in disk.calls[first:model]


@contextmanager
def files_limited_to(size: int) -> Iterator[None]:
    """While this block runs, the system writes no file beyond this size: of what is beyond it, only a part."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("fits", range(1, 40, 6))
def test_a_line_that_fits_only_in_part_leaves_the_log_as_it_was(fits: int, tmp_path: Path) -> None:
    log = tmp_path / "events.jsonl"
    append_line(log, {"event": "started"})
    before = log.read_bytes()
    with files_limited_to(len(before) + fits), pytest.raises(OSError, match="File too large"):
        append_line(log, {"event": "checkpoint", "phase": "memory", "done": 12345})
    assert log.read_bytes() == before
    append_line(log, {"event": "finished"})
    assert log.read_text() == '{"event": "started"}\n{"event": "finished"}\n'


@pytest.mark.parametrize("size", [0, 1, 100, 700, 1000])
def test_a_learner_that_fits_only_in_part_leaves_the_old_one(
    size: int, saved: tuple[Path, Learner, Learner], snapshot: Snapshot
) -> None:
    folder, old, new = saved
    before = snapshot(folder)
    with files_limited_to(size), pytest.raises(PersistenceError) as error:
        new.save(folder)
    assert str(error.value) == f"cannot write '{folder}': File too large"
    check_is(folder, old)
    assert before.items() <= snapshot(folder).items()
    new.save(folder)
    check_is(folder, new)


def test_a_save_mends_files_that_were_damaged(saved: tuple[Path, Learner, Learner]) -> None:
    folder, old, _ = saved
    for file in folder.glob("*.safetensors"):
        file.write_bytes(b"")
    old.save(folder)
    check_is(folder, old)
