"""The converted form of a published dataset: plain ``.npy`` arrays that are mapped into memory, and a manifest.

It holds the checked graph, so that a second load does not parse and validate it again. Every array is compared with the
checksum in the manifest, so that a damaged form is noticed and made again from the raw files.
"""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from delome.datasets.fetching.arrays import declared
from delome.datasets.fetching.cache import MANIFEST
from delome.graph import Graph
from delome.graph.sparse import checked_csr
from delome.persistence.files import write_text
from delome.persistence.reading import open_regular, read_json, sha256_of, size_of

FORMAT = 2
"""Raised whenever the same raw files would be converted differently: older forms are then made again."""

PARTS = ("data", "indices", "indptr")
ATTRIBUTES = ("node_year",)
FILES = {
    "labels.npy",
    "features.npy",
    *(f"{name}.npy" for name in ATTRIBUTES),
    *(f"{matrix}_{part}.npy" for matrix in ("adjacency", "features") for part in PARTS),
}


def write(graph: Graph, folder: Path, about: dict[str, Any], sources: dict[str, str]) -> None:
    """Writes a new folder; ``about`` says what dataset it is, ``sources`` are the checksums of its raw files."""
    folder.mkdir()
    arrays = _csr_parts("adjacency", graph.adjacency) | {"labels": np.asarray(graph.labels)}
    arrays.pop("adjacency_data")  # all true
    arrays |= {name: graph.attributes[name] for name in ATTRIBUTES if name in graph.attributes}
    if isinstance(graph.features, np.ndarray):
        arrays["features"] = graph.features
    else:
        arrays |= _csr_parts("features", graph.features)
    files = {}
    for name, array in arrays.items():
        file = folder / f"{name}.npy"
        with file.open("wb") as opened:
            np.save(opened, array, allow_pickle=False)
            opened.flush()
            os.fsync(opened.fileno())
        files[file.name] = sha256_of(file)
    manifest = {
        "format": FORMAT,
        "about": about,
        "sources": sources,
        "shape": list(graph.features.shape),
        "class_names": graph.class_names,
        "undirected": graph.undirected,
        "files": files,
    }
    write_text(folder / MANIFEST, json.dumps(manifest, indent=1) + "\n")


def read(folder: Path, about: dict[str, Any], most: int) -> Graph | None:
    """The graph, or ``None`` if the form is absent, damaged, of another version or not ``about`` this dataset.

    No file of it may have more than ``most`` bytes.
    """
    try:
        manifest = read_json(folder / MANIFEST)
        if manifest["format"] != FORMAT or manifest["about"] != about:
            return None
        files = manifest["files"]
        if not files.keys() <= FILES:
            return None
        arrays = {Path(name).stem: _mapped(folder / name, checksum, most) for name, checksum in files.items()}
        nodes, width = manifest["shape"]
        labels = np.array(arrays["labels"])
        arrays["adjacency_data"] = np.ones(len(arrays["adjacency_indices"]), dtype=bool)
        adjacency = _csr("adjacency", arrays, (nodes, nodes))
        features = arrays["features"] if "features" in arrays else _csr("features", arrays, (nodes, width))
        names, undirected = manifest["class_names"], manifest["undirected"]
        attributes = {name: np.array(arrays[name]) for name in ATTRIBUTES if name in arrays}
        well_formed = (
            features.shape == (nodes, width)
            and features.dtype == np.float32
            and labels.shape == (nodes,)
            and labels.dtype == np.int64
            and labels.min() >= -1
            and all(each.shape == (nodes,) and each.dtype.kind in "fiub" for each in attributes.values())
            and (names is None or _are_names(names, labels.max() + 1))
            and type(undirected) is bool
        )
        if not well_formed:
            return None
        return Graph._trusted(
            adjacency, features, labels, names and tuple(names), undirected=undirected, attributes=attributes
        )
    except Exception:  # a file from elsewhere may fail anywhere
        return None


def _are_names(names: Any, least: int) -> bool:
    return isinstance(names, list) and len(names) >= least and all(isinstance(name, str) for name in names)


def _mapped(file: Path, checksum: str, most: int) -> np.ndarray:
    """An array as it lies on the disk; a ``ValueError`` if its size or checksum is another."""
    with open_regular(file) as opened:
        shape, dtype, start = declared(opened)
        size = size_of(opened)
    if size > most or start + math.prod(shape) * dtype.itemsize != size or sha256_of(file) != checksum:
        raise ValueError(f"{file.name} is damaged")
    # copy-on-write: torch wants writable arrays, and the files must never change
    mapped: np.ndarray = np.load(file, mmap_mode="c", allow_pickle=False)
    return mapped


def _csr_parts(name: str, matrix: sp.csr_array) -> dict[str, np.ndarray]:
    return {f"{name}_{part}": getattr(matrix, part) for part in PARTS}


def _csr(name: str, arrays: dict[str, np.ndarray], shape: tuple[int, int]) -> sp.csr_array:
    """The matrix; a ``ValueError`` if an index leads outside, or they are not sorted as they were written."""
    data, indices, indptr = (arrays[f"{name}_{part}"] for part in PARTS)
    if indices.dtype.kind != "i" or indptr.dtype.kind != "i":
        raise ValueError(f"{name} has indices out of range")
    matrix = checked_csr(sp.csr_array((data, indices, indptr), shape=shape))
    if not matrix.has_canonical_format:
        raise ValueError(f"{name} is not sorted")
    return matrix
