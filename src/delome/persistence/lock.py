"""One writer at a time: a folder is claimed by a lock that the system releases when its holder dies."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from delome.errors import PersistenceError
from delome.persistence.reading import is_irregular

LOCK = ".lock"


def open_to_write(file: Path, mode: int) -> int:
    """Opens a regular file for writing, creating it if it is missing."""
    if is_irregular(file):
        raise PersistenceError(f"'{file}' is not a regular file: remove it and try again")
    # neither following a link nor waiting at a pipe that has come into its place since
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    return os.open(file, flags, mode)


@contextmanager
def sole_writer(folder: Path, waiting: Callable[[], None] | None = None) -> Iterator[Callable[[], None]]:
    """Keeps other processes and threads from writing in the folder; the lock of a killed process is released.

    ``waiting`` is called before waiting for another writer to finish; without it another writer is an error.
    What the block is given raises a `PersistenceError` if the folder at this path is no longer the locked one.
    """
    claim = folder / LOCK

    def check() -> None:
        if not is_in_place(opened, claim):
            raise PersistenceError(
                f"'{folder}' was moved away or removed while it was written to: "
                "nothing more is written; give the command again with the folder's new name"
            )

    while True:
        opened = open_to_write(claim, 0o666)
        try:
            if not try_lock(opened):
                if waiting is None:
                    raise PersistenceError(
                        f"another process is writing in '{folder}': wait for it or choose another folder"
                    )
                waiting()
                _wait_for_lock(opened)
            # the previous holder has removed the file we waited for: only a file still in place counts
            if is_in_place(opened, claim):
                break
        except BaseException:
            os.close(opened)
            raise
        os.close(opened)
    try:
        yield check
    finally:
        with suppress(OSError):  # Windows does not remove open files
            # if the folder was moved away, another may hold the lock of the one now in its place
            if is_in_place(opened, claim):
                claim.unlink()
        with suppress(OSError):
            os.close(opened)


def is_in_place(opened: int, path: Path) -> bool:
    """Whether an open file is the one at this path."""
    try:
        return os.path.samestat(os.fstat(opened), path.lstat())
    except (FileNotFoundError, NotADirectoryError):
        return False


if sys.platform == "win32":
    import msvcrt

    def try_lock(opened: int) -> bool:
        """Locks an open file unless another has."""
        try:
            msvcrt.locking(opened, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def _wait_for_lock(opened: int) -> None:
        while True:
            with suppress(OSError):  # gives up after ten seconds
                msvcrt.locking(opened, msvcrt.LK_LOCK, 1)
                return

else:
    import fcntl

    def try_lock(opened: int) -> bool:
        """Locks an open file unless another has."""
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _wait_for_lock(opened: int) -> None:
        fcntl.flock(opened, fcntl.LOCK_EX)
