"""Large tables of numbers in compressed text: read in blocks of lines, so memory does not grow with the file."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import numpy as np
from scipy.io import mmread

from delome.datasets.fetching.reading import Progress, silent
from delome.errors import DatasetError

_BLOCK = 1 << 24  # bytes of text
_NUMERALS = {"integer": b"0123456789+-", "real": b"0123456789+-.eE"}


def read_table(
    file: Path, kind: Literal["integer", "real"], columns: int | None = None, progress: Progress = silent
) -> Iterator[np.ndarray]:
    """Blocks of rows of a ``.csv.gz`` without header, as int64 or float64 of shape rows × columns.

    ``columns`` is taken from the first line if it is not given.
    """
    for text in _lines(file, progress):
        if columns is None:
            columns = text.partition(b"\n")[0].count(b",") + 1
        yield _parse(file, text, kind, columns)


def _lines(file: Path, progress: Progress) -> Iterator[bytes]:
    """Uncompressed text in blocks of whole lines, each line ended by a newline."""
    size, rest = file.stat().st_size, b""
    try:
        with file.open("rb") as compressed, gzip.GzipFile(fileobj=compressed) as opened:
            while block := opened.read(_BLOCK):
                progress(f"reading {file.name}", compressed.tell(), size)
                end = block.rfind(b"\n") + 1
                if not end and len(rest) > _BLOCK:
                    raise DatasetError(f"'{file}' is not a table of numbers: it has a line of {len(rest):,} bytes")
                if end:
                    yield (rest + block[:end]).replace(b"\r", b"")
                rest = block[end:] if end else rest + block
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DatasetError(f"'{file}' is damaged or incomplete: {error}".rstrip(".")) from None
    if rest:
        yield rest.replace(b"\r", b"") + b"\n"


def _parse(file: Path, text: bytes, kind: Literal["integer", "real"], columns: int) -> np.ndarray:
    rows = text.count(b"\n")
    # scipy's reader of MatrixMarket files, whose arrays list one number a line, column by column, is the fastest
    # exact parser of decimal numbers at hand; it skips what follows a number on its line, so that is checked here
    well_formed = text.translate(None, delete=_NUMERALS[kind]) == (b"," * (columns - 1) + b"\n") * rows
    header = f"%%MatrixMarket matrix array {kind} general\n{columns} {rows}\n".encode()
    try:
        if well_formed:
            return np.asarray(mmread(io.BytesIO(header + text.replace(b",", b"\n")))).T
    except (ValueError, OverflowError):
        pass
    what = "whole numbers" if kind == "integer" else "numbers"
    raise DatasetError(f"'{file}' is not a table: every line must hold {columns} {what} and nothing else")
