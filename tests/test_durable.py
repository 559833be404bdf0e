from __future__ import annotations

import json
import os
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from delome.durable import (
    FORMAT,
    add_folder,
    append_line,
    read_document,
    remove_leftovers,
    replacing,
    sole_writer,
    told,
    write_document,
    write_text,
)
from delome.errors import StorageError


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
    remove_leftovers(tmp_path)
    assert names(tmp_path) == ["mine.txt"]


def test_a_failed_write_is_told_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(StorageError) as error, told(tmp_path / "a"):
        raise OSError(28, "No space left on device")
    assert str(error.value) == f"cannot write '{tmp_path / 'a'}': No space left on device"


def test_a_document_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    content = {"x": [0.1, 1e-300, None, True, "ä"], "nested": {"y": 2**70}}
    write_document(tmp_path / "a.json", "example", content)
    assert read_document(tmp_path / "a.json", "example") == content
    raw = json.loads((tmp_path / "a.json").read_text())
    assert raw["kind"] == "example" and raw["format"] == FORMAT and len(raw["sha256"]) == 64


def changed(file: Path, **changes: object) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"x": 2}, "is damaged: its content does not have the checksum it was written with"),
        ({"sha256": "0" * 64}, "is damaged"),
        ({"sha256": None}, "is damaged"),
        ({"kind": "other"}, "is not a example of delome: it is damaged or of another kind"),
        (
            {"format": FORMAT + 1},
            f"has format '{FORMAT + 1}', and this version of delome reads {FORMAT}: use the version that wrote it",
        ),
        ({"format": None}, "has format 'None'"),
    ],
)
def test_a_document_that_is_not_what_was_written_is_refused(
    changes: dict[str, object], sentence: str, tmp_path: Path
) -> None:
    write_document(tmp_path / "a.json", "example", {"x": 1})
    changed(tmp_path / "a.json", **changes)
    with pytest.raises(StorageError) as error:
        read_document(tmp_path / "a.json", "example")
    assert sentence in str(error.value)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"3", b"\xff\xfe", b"[" * 100_000, b'{"kind": "example"}'])
def test_what_is_no_document_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(StorageError):
        read_document(tmp_path / "a.json", "example")


def test_a_missing_document_and_a_folder_in_its_place_are_told(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"there is no .*so .* holds no example of delome"):
        read_document(tmp_path / "a.json", "example")
    (tmp_path / "a.json").mkdir()
    with pytest.raises(StorageError, match=r"cannot read .*: Is a directory"):
        read_document(tmp_path / "a.json", "example")


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


def test_a_claim_that_does_not_wait_is_refused(tmp_path: Path) -> None:
    with (
        sole_writer(tmp_path),
        pytest.raises(StorageError, match="another process is writing in"),
        sole_writer(tmp_path),
    ):
        pytest.fail("two writers")
    assert names(tmp_path) == []


def test_there_is_one_writer_at_a_time_and_nothing_is_left(tmp_path: Path) -> None:
    inside, most, waited = 0, 0, threading.Event()

    def write() -> None:
        nonlocal inside, most
        with sole_writer(tmp_path, waited.set):
            inside += 1
            most = max(most, inside)
            inside -= 1

    threads = [threading.Thread(target=write) for _ in range(8)]
    with sole_writer(tmp_path):
        inside = 1
        for thread in threads:
            thread.start()
        assert waited.wait(timeout=10)
        assert most == 0
        inside = 0
    for thread in threads:
        thread.join()
    assert most == 1
    assert list(tmp_path.iterdir()) == []


def test_the_claim_ends_with_an_error(tmp_path: Path) -> None:
    with pytest.raises(KeyError), sole_writer(tmp_path):
        raise KeyError
    with sole_writer(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("depth", [60, 900, 10_000])
def test_a_document_that_is_nested_too_deeply_is_refused(depth: int, tmp_path: Path) -> None:
    body = f'"kind": "example", "format": {FORMAT}, "x": {"[" * depth}{"]" * depth}'
    (tmp_path / "a.json").write_text(f"{{{body}}}")
    with pytest.raises(StorageError, match="is not a example of delome: it is damaged or of another kind"):
        read_document(tmp_path / "a.json", "example")


def test_a_document_that_is_a_pipe_or_too_large_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.json")
    with pytest.raises(StorageError, match=r"cannot read '.*a.json': it is not a regular file"):
        read_document(tmp_path / "a.json", "example")
    write_document(tmp_path / "b.json", "example", {"x": "y" * 1000})
    with pytest.raises(StorageError, match=r"cannot read '.*b.json': it has 1,\d+ bytes, and no more than 1,000 are"):
        read_document(tmp_path / "b.json", "example", 1000)


@pytest.mark.parametrize("kind", ["pipe", "link", "link to nothing", "folder"])
def test_a_claim_that_is_no_regular_file_is_refused(kind: str, tmp_path: Path) -> None:
    folder, other = tmp_path / "folder", tmp_path / "other"
    folder.mkdir()
    if kind == "pipe":
        os.mkfifo(folder / ".lock")
    elif kind == "folder":
        (folder / ".lock").mkdir()
    else:
        (folder / ".lock").symlink_to(other)
    if kind == "link":
        other.write_text("precious")
    with pytest.raises(StorageError) as error, sole_writer(folder):
        pytest.fail("claimed")
    assert str(error.value) == f"'{folder / '.lock'}' is not a regular file: remove it and try again"
    assert names(folder) == [".lock"]
    assert other.exists() == (kind == "link")


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


@pytest.mark.parametrize("successor", [False, True])
def test_a_writer_notices_that_its_folder_was_moved_away(successor: bool, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    with sole_writer(folder) as check:
        check()
        folder.rename(tmp_path / "moved")
        if successor:
            folder.mkdir()
            (folder / ".lock").touch()
        with pytest.raises(StorageError) as error:
            check()
    assert str(error.value) == (
        f"'{folder}' was moved away or removed while it was written to: nothing more is written; "
        "give the command again with the folder's new name"
    )
    assert folder.exists() == successor
