from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from delome.errors import PersistenceError
from delome.persistence.lock import sole_writer


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_claim_that_does_not_wait_is_refused(tmp_path: Path) -> None:
    with (
        sole_writer(tmp_path),
        pytest.raises(PersistenceError, match="another process is writing in"),
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
    with pytest.raises(PersistenceError) as error, sole_writer(folder):
        pytest.fail("claimed")
    assert str(error.value) == f"'{folder / '.lock'}' is not a regular file: remove it and try again"
    assert names(folder) == [".lock"]
    assert other.exists() == (kind == "link")


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
        with pytest.raises(PersistenceError) as error:
            check()
    assert str(error.value) == (
        f"'{folder}' was moved away or removed while it was written to: nothing more is written; "
        "give the command again with the folder's new name"
    )
    assert folder.exists() == successor
