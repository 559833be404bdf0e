from __future__ import annotations

import json
import os
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from delome.errors import PersistenceError
from delome.persistence.files import (
    add_folder,
    append_line,
    make_folder,
    remove_empty_folders,
    remove_temporary_files,
    replacing,
    reporting_write_errors,
    write_text,
)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_replaced_when_the_block_ends_well_and_not_otherwise(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    write_text(target, "old")
    with pytest.raises(KeyError), replacing(target) as temporary:
        temporary.write_text("half")
        raise KeyError
    assert target.read_text() == "old"
    with replacing(target) as temporary:
        temporary.write_text("new")
        assert target.read_text() == "old"
    assert target.read_text() == "new"
    assert names(target.parent) == ["a.txt"]
    assert target.stat().st_mode & 0o777 == 0o644


def test_leftovers_of_a_killed_writer_are_removed(tmp_path: Path) -> None:
    (tmp_path / ".writing-abc.json").write_text("half")
    (tmp_path / "mine.txt").write_text("whole")
    remove_temporary_files(tmp_path)
    assert names(tmp_path) == ["mine.txt"]


def test_a_failed_write_is_told_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(PersistenceError) as error, reporting_write_errors(tmp_path / "a"):
        raise OSError(28, "No space left on device")
    assert str(error.value) == f"cannot write '{tmp_path / 'a'}': No space left on device"


def test_lines_are_appended_and_a_torn_one_is_cut_away(tmp_path: Path) -> None:
    file = tmp_path / "log.jsonl"
    append_line(file, {"n": 1})
    append_line(file, {"n": 2})
    file.write_bytes(file.read_bytes() + b"x" * 10_000)
    append_line(file, {"n": 3})
    assert [json.loads(line)["n"] for line in file.read_text().splitlines()] == [1, 2, 3]
    file.write_bytes(b"torn from the start")
    append_line(file, {"n": 4})
    assert json.loads(file.read_text())["n"] == 4


@pytest.mark.parametrize("kind", ["pipe", "link"])
def test_no_line_is_appended_to_what_is_no_regular_file(kind: str, tmp_path: Path) -> None:
    (tmp_path / "other").write_text("a text without a line break at its end")
    if kind == "pipe":
        os.mkfifo(tmp_path / "log.jsonl")
    else:
        (tmp_path / "log.jsonl").symlink_to("other")
    with pytest.raises(OSError, match="it is not a regular file"):
        append_line(tmp_path / "log.jsonl", {"n": 1})
    assert (tmp_path / "other").read_text() == "a text without a line break at its end"


def test_no_folder_is_made_for_a_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_text(tmp_path / "deep" / "a.txt", "new")
    assert names(tmp_path) == []
    with pytest.raises(FileNotFoundError):
        add_folder(tmp_path / "deep" / "er")
    add_folder(tmp_path / "deep")
    add_folder(tmp_path / "deep")
    assert names(tmp_path) == ["deep"]


def test_a_replaced_file_keeps_its_mode(tmp_path: Path) -> None:
    write_text(tmp_path / "a.txt", "old")
    (tmp_path / "a.txt").chmod(0o640)
    write_text(tmp_path / "a.txt", "new")
    assert (tmp_path / "a.txt").read_text() == "new"
    assert (tmp_path / "a.txt").stat().st_mode & 0o777 == 0o640


def test_what_a_killed_writer_left_is_written_over(tmp_path: Path) -> None:
    with replacing(tmp_path / "a.txt") as temporary:
        pass
    temporary.write_text("half of something longer than what comes")
    write_text(tmp_path / "a.txt", "new")
    assert names(tmp_path) == ["a.txt"]
    assert (tmp_path / "a.txt").read_text() == "new"


def test_a_file_that_another_is_writing_is_left_to_them(tmp_path: Path) -> None:
    with replacing(tmp_path / "a.txt") as temporary:
        temporary.write_text("first")
        with pytest.raises(OSError, match="another process is writing it"):
            write_text(tmp_path / "a.txt", "second")
        write_text(tmp_path / "b.txt", "other")
        assert temporary.read_text() == "first"
    assert [(tmp_path / name).read_text() for name in names(tmp_path)] == ["first", "other"]


def test_writers_of_one_file_never_mix(tmp_path: Path) -> None:
    def write(number: int) -> None:
        for _ in range(20):
            with suppress(OSError):
                write_text(tmp_path / "a.txt", str(number) * 1000)

    threads = [threading.Thread(target=write, args=[number]) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert names(tmp_path) == ["a.txt"]
    assert (tmp_path / "a.txt").read_text() in {str(number) * 1000 for number in range(4)}


def test_the_folders_that_were_made_are_told_and_go_again_while_they_are_empty(tmp_path: Path) -> None:
    deep = tmp_path / "a" / "b" / "c"
    made = make_folder(deep)
    assert made == [deep, deep.parent, deep.parent.parent]
    assert make_folder(deep) == []
    (tmp_path / "a" / "mine.txt").touch()
    remove_empty_folders(made)
    assert names(tmp_path) == ["a"] and names(tmp_path / "a") == ["mine.txt"]


def test_nothing_takes_the_place_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a.txt").mkdir()
    with pytest.raises(OSError, match="it is not a file"):
        write_text(tmp_path / "a.txt", "new")
    assert names(tmp_path) == ["a.txt"]
