"""Files that survive: written whole or not at all, checked when read back, one writer at a time."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import Any

from delome.errors import StorageError
from delome.foreign import MOST_DOCUMENT, read_json

FORMAT = 2
"""Version of every document below; a reader refuses documents of a version it does not know."""

TEMPORARY = ".writing-"
LOCK = ".lock"


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """A temporary file beside ``target``, to be filled, that takes its place and mode when the block ends well.

    The new content is on the disk before the old is gone, so that at every moment one of them is there as a whole. What
    a killed writer of the same target has left is written over; the folder must be there.
    """
    if is_there(target) and not target.is_file() and not target.is_symlink():
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
            temporary.unlink(missing_ok=True)
        raise
    finally:
        os.close(handle)


def _claimed(temporary: Path) -> int:
    """An open file of this name that no other process or thread writes."""
    while True:
        handle = _open_regular_to_write(temporary, 0o600)
        try:
            if not _can_be_claimed(handle):
                raise OSError(errno.EBUSY, "another process is writing it")
            if _is_in_place(handle, temporary):  # else it was renamed by the one who had claimed it before
                return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def _can_be_claimed(handle: int) -> bool:
    try:
        return _claim_at_once(handle)
    except OSError as error:
        if error.errno not in (errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK):
            raise
        return True  # nobody can claim anything on this disk


def _mode(target: Path) -> int:
    """Mode of the file that is there, or of a new one."""
    if target.is_file():
        return target.stat().st_mode & 0o777
    mask = os.umask(0)  # can only be read by being set
    os.umask(mask)
    return 0o666 & ~mask


def _open_regular_to_write(file: Path, mode: int) -> int:
    if is_irregular(file):
        raise StorageError(f"'{file}' is not a regular file: remove it and try again")
    # neither following a link nor waiting at a pipe that has come into its place since
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    return os.open(file, flags, mode)


@contextmanager
def told(target: Path) -> Iterator[None]:
    """Tells a failed write in a sentence; what was there before is still there."""
    try:
        yield
    except OSError as error:
        in_the_way = isinstance(error, FileExistsError | NotADirectoryError)
        reason = "there is a file where a folder should be" if in_the_way else error.strerror or error
        raise StorageError(f"cannot write '{target}': {reason}") from None


def write_bytes(target: Path, content: bytes) -> None:
    """Writes a file whole."""
    with replacing(target) as temporary:
        temporary.write_bytes(content)


def write_text(target: Path, text: str) -> None:
    """Writes a text file whole."""
    write_bytes(target, text.encode(errors="backslashreplace"))  # a name may hold what is no text


def sync_folder(folder: Path) -> None:
    """Puts the names of a folder's files on the disk."""
    if sys.platform == "win32":  # which cannot open folders, and does this by itself
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_folder(folder: Path) -> list[Path]:
    """Creates a folder and those above it that are missing, puts their names on the disk, and says which were made."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for each in reversed(missing):
        sync_folder(each.parent)
    return missing


def add_folder(folder: Path) -> None:
    """Creates a folder, if it is missing, in one that must be there."""
    if not folder.is_dir():
        folder.mkdir()
        sync_folder(folder.parent)


def unmake_folders(made: list[Path]) -> None:
    """Removes folders again as far as they are empty."""
    with suppress(OSError):
        for folder in made:
            folder.rmdir()


def is_there(file: Path) -> bool:
    """Whether there is anything of this name, be it a link that leads nowhere."""
    return os.path.lexists(file)


def is_irregular(file: Path) -> bool:
    """Whether there is something of this name that is no file of its own: a folder, a link, a pipe or a device."""
    return is_there(file) and (file.is_symlink() or not file.is_file())


def remove_leftovers(folder: Path) -> None:
    """Removes temporary files of a writer that was killed; only for the one who holds the lock."""
    for leftover in folder.glob(f"{TEMPORARY}*"):
        with suppress(OSError):
            leftover.unlink()


def write_document(target: Path, kind: str, content: dict[str, Any]) -> None:
    """Writes a JSON document that says what it is, which format it has, and its own checksum.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> write_document(folder / "a.json", "example", {"x": [1.5, None]})
    >>> read_document(folder / "a.json", "example")
    {'x': [1.5, None]}
    """
    body = {"kind": kind, "format": FORMAT, **content}
    try:
        checksum = _checksum(body)
    except ValueError:
        raise StorageError(
            f"cannot write '{target}': it would hold numbers that are not finite; try a smaller step size or features"
        ) from None
    text = json.dumps({"sha256": checksum, **body}, indent=1, allow_nan=False)
    write_text(target, text + "\n")


def read_document(source: Path, kind: str, most: int = MOST_DOCUMENT) -> dict[str, Any]:
    """Content of a document of this kind and of at most so many bytes; refuses what is damaged, of another kind or of
    an unknown format."""
    refusal = f"'{source}' is not a {kind} of delome"
    try:
        body = read_json(source, most)
    except FileNotFoundError:
        raise StorageError(f"there is no '{source}', so '{source.parent}' holds no {kind} of delome") from None
    except OSError as error:
        raise StorageError(f"cannot read '{source}': {error.strerror or error}") from None
    except ValueError:
        raise StorageError(f"{refusal}: it is damaged or of another kind") from None
    if not isinstance(body, dict) or body.get("kind") != kind:
        raise StorageError(f"{refusal}: it is damaged or of another kind")
    if body.get("format") != FORMAT:
        raise StorageError(
            f"'{source}' has format {str(body.get('format'))[:20]!r}, and this version of delome reads {FORMAT}: "
            "use the version that wrote it"
        )
    checksum = body.pop("sha256", None)
    try:
        intact = checksum == _checksum(body)
    except ValueError:  # numbers that are none are never written
        intact = False
    if not intact:
        raise StorageError(f"'{source}' is damaged: its content does not have the checksum it was written with")
    del body["kind"], body["format"]
    return body


def kind_of(source: Path) -> str | None:
    """What a document of delome says that it is, be it damaged; ``None`` if it is something else."""
    try:
        body = read_json(source)
    except (OSError, ValueError):
        return None
    ours = isinstance(body, dict) and {"kind", "format", "sha256"} <= body.keys()
    return str(body["kind"]) if ours else None


def _checksum(body: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True, allow_nan=False).encode()).hexdigest()


def append_line(target: Path, content: dict[str, Any]) -> None:
    """Adds one line to a file of JSON lines; a line that was cut off by a crash is cut away first."""
    line = json.dumps(content, allow_nan=False).encode() + b"\n"
    if is_irregular(target):  # of a file that a link leads to, the end would be cut away
        raise OSError(errno.EINVAL, "it is not a regular file")
    # without a buffer, which would be written after all when the file is closed
    with target.open("ab+", buffering=0) as file:
        end = _end_of_last_line(file)
        try:
            file.truncate(end)
            while line:
                line = line[file.write(line) :]
            os.fsync(file.fileno())
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


@contextmanager
def sole_writer(folder: Path, waiting: Callable[[], None] | None = None) -> Iterator[Callable[[], None]]:
    """Keeps other processes and threads from writing in the folder; the system ends the claim of a killed process.

    ``waiting`` is called before waiting for another writer to finish; without it the other one's claim is an error.
    What the block is given raises a `StorageError` if the folder of this name is no longer the one that was claimed.
    """
    claim = folder / LOCK

    def check() -> None:
        if not _is_in_place(opened, claim):
            raise StorageError(
                f"'{folder}' was moved away or removed while it was written to: "
                "nothing more is written; give the command again with the folder's new name"
            )

    while True:
        opened = _open_regular_to_write(claim, 0o666)
        try:
            if not _claim_at_once(opened):
                if waiting is None:
                    raise StorageError(
                        f"another process is writing in '{folder}': wait for it or choose another folder"
                    )
                waiting()
                _claim(opened)
            # the holder before us has removed the file we waited for: only a file that is still in place counts
            if _is_in_place(opened, claim):
                break
        except BaseException:
            os.close(opened)
            raise
        os.close(opened)
    try:
        yield check
    finally:
        with suppress(OSError):  # Windows does not remove open files
            # if the folder was moved away, the one that is there now has a claim of its own
            if _is_in_place(opened, claim):
                claim.unlink()
        with suppress(OSError):
            os.close(opened)


def _is_in_place(opened: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(opened), path.lstat())
    except (FileNotFoundError, NotADirectoryError):
        return False


if sys.platform == "win32":
    import msvcrt

    def _claim_at_once(opened: int) -> bool:
        try:
            msvcrt.locking(opened, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def _claim(opened: int) -> None:
        while True:
            with suppress(OSError):  # gives up after ten seconds
                msvcrt.locking(opened, msvcrt.LK_LOCK, 1)
                return

else:
    import fcntl

    def _claim_at_once(opened: int) -> bool:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _claim(opened: int) -> None:
        fcntl.flock(opened, fcntl.LOCK_EX)
