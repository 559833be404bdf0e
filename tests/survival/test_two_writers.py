from __future__ import annotations

import shutil
import subprocess
import sysconfig
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import delome
from delome.errors import PersistenceError
from delome.experiment import RunConfig, RunFolder
from delome.experiment import run as run_config
from delome.persistence.lock import sole_writer

Ask = Callable[..., dict[str, Any]]
Cli = Callable[..., Any]
Left = Callable[[Path], dict[str, Any]]
Snapshot = Callable[..., dict[str, Any]]

TINY = "synthetic:nodes=24,classes=4,features=4,noise=4"
COMMAND = ("run", "--dataset", TINY, "--method", "finetune", "--epochs", "2", "--set", "hidden=2")


@pytest.fixture
def config() -> RunConfig:
    return RunConfig.resolve(TINY, "finetune", epochs=2, assignments=["hidden=2"])


def refusal(folder: Path) -> str:
    return f"another process is writing in '{folder}': wait for it or choose another folder"


@pytest.mark.parametrize("at", [30, 60, 120])
def test_a_run_folder_has_one_writer(
    at: int, config: RunConfig, life: Ask, cli: Cli, folder: Path, left: Left, snapshot: Snapshot
) -> None:
    run, stream = folder / "run", config.stream()
    assert life(config, run, at=at, event="pause before") == {"holding": True}
    before = snapshot(run)
    assert "seed-0/.lock" in before
    # while the files that all seeds share are written, the whole folder is locked
    refusals = {refusal(run / "seed-0"), *([refusal(run)] if ".lock" in before else [])}
    for fresh in (False, True):
        with pytest.raises(PersistenceError) as error:
            RunFolder.open(run, config, stream, fresh=fresh)
        assert str(error.value) in refusals
    for options in ((), ("--fresh",)):
        outcome = cli(*COMMAND, "--out", str(run), *options)
        assert (outcome.code, outcome.out) == (2, "")
        assert outcome.err in {f"delome: {sentence}\n" for sentence in refusals}
    assert snapshot(run) == before
    assert list(folder.iterdir()) == [run]
    assert life(config, run)["ended"] == -9  # the one that held it is killed
    with RunFolder.open(run, config, stream) as place:
        assert place.continues
    assert life(config, run) == life(config, folder / "whole") == {"ended": 0}
    assert left(run) == left(folder / "whole")


@pytest.mark.slow
def test_the_installed_program_is_refused_too(config: RunConfig, life: Ask, folder: Path, snapshot: Snapshot) -> None:
    run = folder / "run"
    assert life(config, run, at=60, event="pause before") == {"holding": True}
    before = snapshot(run)
    program = Path(sysconfig.get_path("scripts")) / "delome"
    ended = subprocess.run([program, *COMMAND, "--out", run], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (2, "", f"delome: {refusal(run / 'seed-0')}\n")
    assert snapshot(run) == before
    life(config, run)


def test_a_folder_has_one_writer_in_a_process_too(config: RunConfig, tmp_path: Path) -> None:
    stream = config.stream()
    with RunFolder.open(tmp_path, config, stream), pytest.raises(PersistenceError, match="another process is writing"):
        RunFolder.open(tmp_path, config, stream)
    RunFolder.open(tmp_path, config, stream).close()


def test_a_saved_learner_has_one_writer_and_any_number_of_readers(
    config: RunConfig, lives: Any, life: Ask, tmp_path: Path, snapshot: Snapshot
) -> None:
    stream, folder = config.stream(), tmp_path / "model"
    old, new = lives.learned(config, stream, 1), lives.learned(config, stream, 2)
    old.save(folder)
    assert life(config, folder, tasks=2, at=10, event="pause before") == {"holding": True}
    before = snapshot(folder)
    with pytest.raises(PersistenceError) as error:
        new.save(folder)
    assert str(error.value) == refusal(folder)
    assert snapshot(folder) == before
    assert delome.load(folder).classes == old.classes
    life(config, folder)  # the one that held it is killed
    new.save(folder)
    assert delome.load(folder).classes == new.classes
    assert not (folder / ".lock").exists()


def test_one_who_waits_writes_after_the_other(config: RunConfig, life: Ask, tmp_path: Path) -> None:
    asked = []

    def waiting() -> None:
        asked.append(True)
        life(config, tmp_path / "run")  # the one that held it is killed

    assert life(config, tmp_path / "run", at=60, event="pause before") == {"holding": True}
    with sole_writer(tmp_path / "run" / "seed-0", waiting):
        assert asked == [True]
        assert (tmp_path / "run" / "seed-0" / ".lock").exists()
    assert not (tmp_path / "run" / "seed-0" / ".lock").exists()


def test_other_seeds_of_a_run_may_be_run_at_the_same_time(
    config: RunConfig, life: Ask, folder: Path, left: Left
) -> None:
    run = folder / "run"
    assert life(config, run, at=60, event="pause before") == {"holding": True}
    assert not (run / ".lock").exists()  # nor are the files that all seeds share being written
    other = replace(config, seeds=[1])
    with RunFolder.open(run, other, config.stream()) as place:
        run_config(other, config.stream(), place)
    assert life(config, run)["ended"] == -9
    assert life(config, run) == life(config, folder / "whole") == {"ended": 0}
    assert left(run / "seed-0") == left(folder / "whole" / "seed-0")
    assert (run / "seed-1" / "result.json").exists()


def test_a_claim_on_a_folder_that_was_moved_away_leaves_the_claim_on_its_successor(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    with sole_writer(folder):
        folder.rename(tmp_path / "moved")
        folder.mkdir()
        successor = sole_writer(folder)
        successor.__enter__()
    with pytest.raises(PersistenceError, match="another process is writing"), sole_writer(folder):
        pass
    successor.__exit__(None, None, None)


def test_fresh_keeps_what_was_there_as_numbered_backups(
    config: RunConfig, cli: Cli, folder: Path, snapshot: Snapshot
) -> None:
    run = folder / "run"
    command = (*COMMAND, "--out", str(run))
    assert cli(*command).code == 0
    (run / "notes of my own.txt").write_text("precious")
    first = snapshot(run)
    outcome = cli(*command, "--fresh")
    assert outcome.code == 0
    assert outcome.notes == [f"delome: note: the previous run is kept in '{run}.backup-1'"]
    second = snapshot(run)
    assert "notes of my own.txt" not in second
    assert cli(*command, "--fresh").code == 0
    assert snapshot(folder / "run.backup-1") == first
    assert snapshot(folder / "run.backup-2") == second
    assert sorted(place.name for place in folder.iterdir()) == ["run", "run.backup-1", "run.backup-2"]


def test_fresh_keeps_results_whose_configuration_is_missing(
    config: RunConfig, cli: Cli, folder: Path, snapshot: Snapshot
) -> None:
    run = folder / "run"
    command = (*COMMAND, "--out", str(run))
    assert cli(*command).code == 0
    (run / "config.json").unlink()
    before = snapshot(run)
    outcome = cli(*command)
    assert outcome.code == 2
    assert outcome.err == (
        f"delome: '{run}' holds results or events, but no config.json that says of which run: "
        "choose another folder with --out, or start over with --fresh\n"
    )
    assert snapshot(run) == before
    assert cli(*command, "--fresh").code == 0
    assert snapshot(folder / "run.backup-1") == before


@pytest.mark.slow
@pytest.mark.parametrize("event", ["kill before", "kill after"])
def test_fresh_survives_a_kill_at_any_call(
    event: str, config: RunConfig, lives: Any, life: Ask, tmp_path: Path, left: Left, snapshot: Snapshot
) -> None:
    stream = config.stream()
    lives.live(config, stream, tmp_path / "first" / "run")
    before, wanted = snapshot(tmp_path / "first" / "run"), left(tmp_path / "first" / "run")
    for at in range(12):
        place = tmp_path / f"{at}"
        shutil.copytree(tmp_path / "first", place)
        ended = life(config, place / "run", fresh=True, watch=str(place), at=at, event=event)
        assert ended["ended"] == -9
        lives.live(config, stream, place / "run", fresh=not (place / "run.backup-1").exists())
        assert left(place / "run") == wanted
        assert snapshot(place / "run.backup-1", ".lock") == before
