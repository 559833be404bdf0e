"""Features in files that several processes map into memory: what one has computed, the others need not."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import numpy as np
import scipy.sparse as sp

from delome.graph.sparse import Features

PARTS = ("data", "indices", "indptr")


def shared_features(folder: Path, key: str, compute: Callable[[], Features]) -> Features:
    """Features of this key in a folder, computed and put there if they are missing.

    A folder that cannot be written is no reason to fail. Files appear complete or not at all: two processes that
    compute the same at once write the same.
    """
    place = folder / key
    if place.is_dir():
        with suppress(OSError, ValueError):
            return _read(place)
    found = compute()
    with suppress(OSError, ValueError):
        _write(place, found)
        return _read(place)
    return found


def _read(place: Path) -> Features:
    # copy-on-write: torch wants writable arrays, and the files must never change
    arrays = {file.stem: np.load(file, mmap_mode="c", allow_pickle=False) for file in place.glob("*.npy")}
    if "dense" in arrays:
        dense: np.ndarray = arrays["dense"]
        return dense
    shape = tuple(int(size) for size in arrays["shape"])
    return sp.csr_array(tuple(arrays[part] for part in PARTS), shape=shape)


def _write(place: Path, features: Features) -> None:
    dense = isinstance(features, np.ndarray)
    arrays = {"dense": features} if dense else {part: getattr(features, part) for part in PARTS}
    if not dense:
        arrays["shape"] = np.array(features.shape)
    temporary = place.with_name(f".{place.name}-{os.getpid()}-{uuid4().hex[:8]}")
    temporary.mkdir(parents=True)
    for name, array in arrays.items():
        np.save(temporary / f"{name}.npy", array, allow_pickle=False)
    try:
        temporary.rename(place)
    except OSError:  # another process was faster
        for file in temporary.iterdir():
            file.unlink()
        temporary.rmdir()
