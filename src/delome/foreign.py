"""Files that may come from anywhere: only regular ones are read, and none that is larger or deeper than it can be."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
from io import BufferedReader
from pathlib import Path
from typing import Any

MOST_DOCUMENT = 32 << 20
"""Bytes of a JSON document. The largest that are written list some hundred thousand seeds or classes."""

MOST_NESTED = 50
"""Lists and objects inside each other in a JSON document. Those that are written have ten at most."""


def open_regular(file: Path) -> BufferedReader:
    """Opens a file for reading; an ``OSError`` if it is a folder, or a pipe or a device, which may never end."""
    # a pipe is opened without waiting for somebody at its other end
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    handle = os.open(file, flags)
    mode = os.fstat(handle).st_mode
    if stat.S_ISREG(mode):
        return os.fdopen(handle, "rb")
    os.close(handle)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    raise OSError(errno.EINVAL, "it is not a regular file")


def size_of(opened: BufferedReader) -> int:
    """Bytes of an open file."""
    return os.fstat(opened.fileno()).st_size


def read_regular(file: Path, most: int) -> bytes:
    """Content of a regular file of at most so many bytes."""
    with open_regular(file) as opened:
        size = size_of(opened)
        if size > most:
            raise OSError(errno.EFBIG, f"it has {size:,} bytes, and no more than {most:,} are expected")
        return opened.read(size)


def holds(file: Path, content: bytes) -> bool:
    """Whether a file is there and has this content."""
    try:
        return read_regular(file, len(content)) == content
    except OSError:
        return False


def sha256_of(file: Path) -> str:
    """SHA-256 of a regular file's content in hexadecimal."""
    with open_regular(file) as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def read_json(file: Path, most: int = MOST_DOCUMENT) -> Any:
    """Content of a JSON file; an ``OSError`` if it cannot be read, a ``ValueError`` if it is something else."""
    return parse_json(read_regular(file, most))


def parse_json(text: bytes) -> Any:
    """Content of a JSON text; a ``ValueError`` if it is none, or nested so deeply that going through it may fail.

    >>> parse_json(b'{"a": [1, null]}')
    {'a': [1, None]}
    """
    try:
        content = json.loads(text.decode())
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    level = [content]
    for _ in range(MOST_NESTED):
        # a value at a time, not one call inside the other
        level = [inner for each in level for inner in _inside(each)]
        if not level:
            return content
    raise ValueError("it is nested too deeply")


def _inside(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []
