"""Files that are complete or absent: a writer that is killed leaves the old content or the new one."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import Any

from delome.errors import PersistenceError
from delome.persistence.lock import is_in_place, open_to_write, try_lock
from delome.persistence.reading import is_irregular, path_exists

TEMPORARY = ".writing-"


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """A temporary file beside ``target``, to be filled, that takes its place and mode when the block ends well.

    The new content is on disk before the old is gone, so one of them is complete at any moment. What a killed writer of
    the same target has left is overwritten; the folder must exist.
    """
    if path_exists(target) and not target.is_file() and not target.is_symlink():
        raise OSError(errno.EINVAL, "it is not a file")
    name = hashlib.sha256(os.fsencode(target.name)).hexdigest()[:16]
    temporary = target.with_name(f"{TEMPORARY}{name}{target.suffix}")
    handle = _claimed(temporary)
    try:
        os.ftruncate(handle, 0)
        yield temporary
        os.fsync(handle)
        temporary.chmod(_mode(target))
        temporary.replace(target)
        sync_folder(target.parent)
    except BaseException:
        with suppress(OSError):
            if is_in_place(handle, temporary):  # else it has been renamed, or replaced by another
                temporary.unlink()
        raise
    finally:
        os.close(handle)


def _claimed(temporary: Path) -> int:
    """An open file of this name that no other process or thread is writing."""
    while True:
        handle = open_to_write(temporary, 0o600)
        try:
            if not _can_be_claimed(handle):
                raise OSError(errno.EBUSY, "another process is writing it")
            if is_in_place(handle, temporary):  # else its previous writer has renamed it
                return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def _can_be_claimed(handle: int) -> bool:
    try:
        return try_lock(handle)
    except OSError as error:
        if error.errno not in (errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK):
            raise
        return True  # this file system has no locks


def _mode(target: Path) -> int:
    """Mode of the existing file, or of a new one."""
    if target.is_file():
        return target.stat().st_mode & 0o777
    mask = os.umask(0)  # it can be read only by setting it
    os.umask(mask)
    return 0o666 & ~mask


@contextmanager
def reporting_write_errors(target: Path) -> Iterator[None]:
    """Turns a failed write into a one-sentence error; what was on disk before is intact."""
    try:
        yield
    except OSError as error:
        in_the_way = isinstance(error, FileExistsError | NotADirectoryError)
        reason = "there is a file where a folder should be" if in_the_way else error.strerror or error
        raise PersistenceError(f"cannot write '{target}': {reason}") from None


def write_bytes(target: Path, content: bytes) -> None:
    """Writes a file whole."""
    with replacing(target) as temporary:
        temporary.write_bytes(content)


def write_text(target: Path, text: str) -> None:
    """Writes a text file whole."""
    write_bytes(target, text.encode(errors="backslashreplace"))  # a name may hold bytes that are not text


def sync_folder(folder: Path) -> None:
    """Flushes the names of a folder's files to disk."""
    if sys.platform == "win32":  # which cannot open folders, and flushes by itself
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_folder(folder: Path) -> list[Path]:
    """Creates a folder and its missing parents, flushes their names to disk, and returns those created."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for each in reversed(missing):
        sync_folder(each.parent)
    return missing


def add_folder(folder: Path) -> None:
    """Creates a folder if it is missing; its parent must exist."""
    if not folder.is_dir():
        folder.mkdir()
        sync_folder(folder.parent)


def remove_empty_folders(made: list[Path]) -> None:
    """Removes those of the folders that are empty."""
    with suppress(OSError):
        for folder in made:
            folder.rmdir()


def remove_temporary_files(folder: Path) -> None:
    """Removes temporary files of a killed writer; call only while holding the lock."""
    for leftover in folder.glob(f"{TEMPORARY}*"):
        with suppress(OSError):
            leftover.unlink()


def append_line(target: Path, content: dict[str, Any]) -> None:
    """Adds one line to a file of JSON lines; a line cut short by a crash is removed first."""
    line = json.dumps(content, allow_nan=False).encode() + b"\n"
    if is_irregular(target):  # a link's target would be truncated
        raise OSError(errno.EINVAL, "it is not a regular file")
    # without a buffer, which would be written after all when the file is closed
    with target.open("ab+", buffering=0) as file:
        end = _end_of_last_line(file)
        try:
            file.truncate(end)
            while line:
                line = line[file.write(line) :]
            os.fsync(file.fileno())
            if end == 0:
                sync_folder(target.parent)  # the file may be new
        except OSError:
            with suppress(OSError):
                os.ftruncate(file.fileno(), end)
            raise


def _end_of_last_line(file: FileIO) -> int:
    """Position after the last line break."""
    position = file.seek(0, os.SEEK_END)
    while position > 0:
        start = max(0, position - 4096)
        file.seek(start)
        found = file.read(position - start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        position = start
    return 0
