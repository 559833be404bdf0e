"""Large tables of numbers in compressed text: read in blocks of lines, so memory does not grow with the file."""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import numpy as np
from scipy.io import mmread

from delome.datasets.reading import LONGEST_NUMBER, Progress, silent
from delome.errors import DatasetError
from delome.foreign import open_regular, size_of

_BLOCK = 1 << 24  # bytes of text
_COMPRESSED = 1 << 16  # bytes that are read at once
_GZIP = 31  # zlib's name for archives with the header and the checksum of gzip
_NUMERALS = {"integer": b"0123456789+-", "real": b"0123456789+-.eE"}


def read_table(
    file: Path, kind: Literal["integer", "real"], columns: int | None, most: int, progress: Progress = silent
) -> Iterator[np.ndarray]:
    """Blocks of rows of a ``.csv.gz`` without header, as int64 or float64 of shape rows × columns.

    ``columns`` is taken from the first line if it is not given; ``most`` numbers are expected at most.
    """
    for text in _lines(file, most, progress):
        if columns is None:
            columns = text.partition(b"\n")[0].count(b",") + 1
        yield _parse(file, text, kind, columns)


def _lines(file: Path, most: int, progress: Progress) -> Iterator[bytes]:
    """Uncompressed text in blocks of whole lines, each line ended by a newline."""
    rest = b""
    for block in gunzipped(file, LONGEST_NUMBER * most, progress):
        end = block.rfind(b"\n") + 1
        if not end and len(rest) > _BLOCK:
            raise DatasetError(f"'{file}' is not a table of numbers: it has a line of {len(rest):,} bytes")
        if end:
            yield (rest + block[:end]).replace(b"\r", b"")
        rest = block[end:] if end else rest + block
    if rest:
        yield rest.replace(b"\r", b"") + b"\n"


def gunzipped(file: Path, most: int, progress: Progress = silent) -> Iterator[bytes]:
    """Content of a ``.gz`` in blocks; refused as soon as there are more than ``most`` bytes of it.

    Python's own reader goes byte by byte through the header, in which a name may be of any length.
    """
    block, left = bytearray(), most
    try:
        with open_regular(file) as opened:
            if opened.peek(2)[:2] != b"\x1f\x8b":
                raise EOFError("it was not compressed by gzip")
            size, reader = size_of(opened), zlib.decompressobj(_GZIP)
            while compressed := opened.read(_COMPRESSED):
                while compressed:
                    text = reader.decompress(compressed, min(_BLOCK, left + 1))
                    block += text
                    left -= len(text)
                    if left < 0:
                        raise DatasetError(f"'{file}' is refused: it holds more than {most:,} bytes of text")
                    compressed = reader.unconsumed_tail
                    if reader.eof and (compressed := reader.unused_data):  # archives may follow each other
                        reader = zlib.decompressobj(_GZIP)
                    if len(block) >= _BLOCK:
                        progress(f"reading {file.name}", opened.tell(), size)
                        yield bytes(block)
                        block.clear()
            if not reader.eof:
                raise EOFError("it ends too early")
            progress(f"reading {file.name}", size, size)
    except (EOFError, zlib.error) as error:
        raise DatasetError(f"'{file}' is damaged or incomplete: {error}") from None
    if block:
        yield bytes(block)


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
