"""Arrays in npz archives: only those that are asked for are unpacked, and none is larger than it should be."""

from __future__ import annotations

import io
import math
import warnings
import zipfile
from collections.abc import Collection
from pathlib import Path
from typing import IO

import numpy as np

from delome.datasets.fetching.archives import most_unpacked
from delome.errors import DatasetError
from delome.persistence.reading import open_regular, size_of

MOST_HEADER = 10_000
"""Characters of an array's header, as numpy has it: its parser takes too long for more."""


def read_arrays(file: Path, names: Collection[str], most: int | None = None) -> dict[str, np.ndarray]:
    """The arrays of an npz archive that have one of these names and are plain numbers or text.

    Together they may have ``most`` bytes, or if that is not given, what an archive of its size usually has.
    """
    try:
        with open_regular(file) as opened, zipfile.ZipFile(opened) as archive, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the version of Python that wrote it
            present = set(archive.namelist())
            members = {name: archive.getinfo(f"{name}.npy") for name in names if f"{name}.npy" in present}
            total = sum(member.file_size for member in members.values())
            if total > (most_unpacked(size_of(opened)) if most is None else most):
                raise DatasetError(
                    f"'{file}' is refused: its arrays would take {total:,} bytes, far more than they should: "
                    "save it without compression if it is your own"
                )
            return {name: array for name, each in members.items() if (array := _plain(archive, each)) is not None}
    except DatasetError:
        raise
    except Exception as error:  # a damaged file fails anywhere in the readers of zip archives and arrays
        raise DatasetError(f"'{file}' is not a readable npz archive: {reason(error)}") from None


def names_of_arrays(file: Path) -> list[str]:
    """Names of the arrays of an npz archive."""
    try:
        with open_regular(file) as opened, zipfile.ZipFile(opened) as archive:
            return [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]
    except Exception as error:  # a damaged file fails anywhere in the reader of zip archives
        raise DatasetError(f"'{file}' is not a readable npz archive: {reason(error)}") from None


def _plain(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray | None:
    """One array; ``None`` for the pickled ones (names of nodes) that published archives carry: never unpickled."""
    with archive.open(member) as opened:
        shape, dtype, start = declared(opened)
    if dtype.hasobject:
        if member.filename == "labels.npy":
            raise ValueError("its labels are pickled objects, which are never read: save whole numbers")
        return None
    # values of no bytes would cost nothing in the file, and everything in memory
    if math.prod(shape) * max(dtype.itemsize, 1) > member.file_size - start:
        raise ValueError(f"{member.filename} has a header of more values than there are")
    with archive.open(member) as opened:
        array: np.ndarray = np.lib.format.read_array(opened, allow_pickle=False)
        return array


def declared(opened: IO[bytes]) -> tuple[tuple[int, ...], np.dtype, int]:
    """Shape and type of an array as its header has them, and where its values start."""
    magic = opened.read(8)
    version = np.lib.format.read_magic(io.BytesIO(magic))
    if version not in ((1, 0), (2, 0)):  # others are for records whose fields have names in other scripts
        raise ValueError(f"an array has the format version {version}, which is not read")
    size = opened.read(2 if version == (1, 0) else 4)
    length = int.from_bytes(size, "little")
    if length > MOST_HEADER:
        raise ValueError(f"an array has a header of {length:,} bytes")
    read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read_header(io.BytesIO(size + opened.read(length)))
    if any(each < 0 for each in shape):
        raise ValueError(f"an array has the shape {shape}")
    return shape, dtype, len(magic) + len(size) + length


def require(file: Path, arrays: dict[str, np.ndarray], *names: str, layout: str | None = None) -> None:
    """Refuses an archive without one of these arrays; ``layout`` says in words what it must hold."""
    if missing := [name for name in names if name not in arrays]:
        raise DatasetError(f"'{file}' has no array '{missing[0]}': it must hold {layout or ', '.join(names)}")


def reason(error: Exception) -> str:
    """What an error of a library says, in one line."""
    said = getattr(error, "strerror", None) or str(error)
    return " ".join(said.split()) or f"{type(error).__name__} while reading it"
