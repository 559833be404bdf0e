from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from delome.errors import RunFolderError
from delome.experiment import RunConfig, RunFolder


@pytest.fixture
def config() -> RunConfig:
    return RunConfig.resolve(method_name="finetune", epochs=2)


def everything_in(folder: Path) -> list[str]:
    return sorted(str(file.relative_to(folder)) for file in folder.rglob("*"))


def test_opening_writes_the_configuration_and_the_versions(tmp_path: Path, config: RunConfig) -> None:
    RunFolder.open(tmp_path / "deep" / "run", config)
    written = json.loads((tmp_path / "deep" / "run" / "config.json").read_text())
    assert written["run"] == config.as_dict()
    assert {"delome", "torch"} <= written["versions"].keys()


def test_a_folder_of_the_same_run_is_taken_up_again(tmp_path: Path, config: RunConfig) -> None:
    RunFolder.open(tmp_path, config).write_text("seed-0/matrix.csv", "kept")
    RunFolder.open(tmp_path, config)
    assert (tmp_path / "seed-0" / "matrix.csv").read_text() == "kept"


def test_a_folder_of_another_run_is_refused_and_left_as_it_is(tmp_path: Path, config: RunConfig) -> None:
    RunFolder.open(tmp_path, config)
    before = (tmp_path / "config.json").read_text()
    other = RunConfig.resolve(method_name="finetune", epochs=3, seeds=2)
    with pytest.raises(RunFolderError) as error:
        RunFolder.open(tmp_path, other)
    assert str(error.value) == (f"'{tmp_path}' holds another run (different: parameters, seeds): choose another folder")
    assert (tmp_path / "config.json").read_text() == before


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path, config: RunConfig) -> None:
    (tmp_path / "run").write_text("precious")
    with pytest.raises(RunFolderError) as error:
        RunFolder.open(tmp_path / "run", config)
    assert str(error.value) == f"'{tmp_path / 'run'}' is a file: choose another folder with --out"
    assert (tmp_path / "run").read_text() == "precious"


def test_a_file_on_the_way_to_the_folder_is_refused(tmp_path: Path, config: RunConfig) -> None:
    (tmp_path / "file").write_text("precious")
    with pytest.raises(RunFolderError, match="cannot write"):
        RunFolder.open(tmp_path / "file" / "run", config)
    assert (tmp_path / "file").read_text() == "precious"


def test_a_name_too_long_for_the_file_system_is_refused(tmp_path: Path, config: RunConfig) -> None:
    with pytest.raises(RunFolderError, match="cannot write"):
        RunFolder.open(tmp_path / ("x" * 300), config)


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "{}", "3", "null", '{"run": 5}', '{"run": []}', '{"run": null}', "\xff"]
)
def test_a_configuration_that_is_none_is_refused_and_left_as_it_is(
    content: str, tmp_path: Path, config: RunConfig
) -> None:
    (tmp_path / "config.json").write_text(content, encoding="latin-1")
    with pytest.raises(RunFolderError, match="is not a configuration of a run: choose another folder"):
        RunFolder.open(tmp_path, config)
    assert (tmp_path / "config.json").read_text(encoding="latin-1") == content


def test_files_in_subfolders_are_written_whole(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.write_text("seed-3/notes.txt", "ä\n")
    folder.write_json("seed-3/result.json", {"aa": 1.5})
    assert (tmp_path / "seed-3" / "notes.txt").read_text(encoding="utf-8") == "ä\n"
    assert json.loads((tmp_path / "seed-3" / "result.json").read_text()) == {"aa": 1.5}
    assert everything_in(tmp_path) == ["seed-3", "seed-3/notes.txt", "seed-3/result.json"]


def test_a_written_file_replaces_the_old_one_and_can_be_read_by_others(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.write_text("notes.txt", "old")
    folder.write_text("notes.txt", "new")
    assert (tmp_path / "notes.txt").read_text() == "new"
    assert (tmp_path / "notes.txt").stat().st_mode & 0o777 == 0o644


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.write_text("notes.txt", "old")

    def half(temporary: Path) -> None:
        temporary.write_text("ne")
        raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError, match="in the middle"):
        folder.write("notes.txt", half)
    assert (tmp_path / "notes.txt").read_text() == "old"
    assert everything_in(tmp_path) == ["notes.txt"]


def test_a_full_disk_is_told_in_a_sentence(tmp_path: Path) -> None:
    def full(temporary: Path) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(RunFolderError) as error:
        RunFolder(tmp_path).write("notes.txt", full)
    assert str(error.value) == f"cannot write '{tmp_path / 'notes.txt'}': No space left on device"
    assert everything_in(tmp_path) == []


@pytest.mark.parametrize("content", [float("nan"), [float("inf")]])
def test_json_that_others_cannot_read_is_not_written(content: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        RunFolder(tmp_path).write_json("result.json", content)
    assert everything_in(tmp_path) == []


def test_the_file_kind_is_kept_while_writing(tmp_path: Path) -> None:
    suffixes = []

    def fill(temporary: Path) -> None:
        suffixes.append(temporary.suffix)
        temporary.write_bytes(b"picture")

    assert RunFolder(tmp_path).write("curve.png", fill) == tmp_path / "curve.png"
    assert suffixes == [".png"]
