"""The converted form of a published dataset: plain ``.npy`` arrays that are mapped into memory, and a manifest.

It holds the checked graph, so that a second load does not parse and validate it again. Every array is compared with the
checksum in the manifest, so that a damaged form is noticed and made again from the raw files.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from delome.durable import write_text
from delome.foreign import sha256_of
from delome.graph import Graph

FORMAT = 1
"""Raised whenever the same raw files would be converted differently: older forms are then made again."""

MANIFEST = "manifest.json"


def write(graph: Graph, folder: Path, about: dict[str, Any], sources: dict[str, str]) -> None:
    """Writes a new folder; ``about`` says what dataset it is, ``sources`` are the checksums of its raw files."""
    folder.mkdir()
    arrays = _csr_parts("adjacency", graph.adjacency) | {"labels": np.asarray(graph.labels)}
    arrays.pop("adjacency_data")  # all true
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
        "files": files,
    }
    write_text(folder / MANIFEST, json.dumps(manifest, indent=1) + "\n")


def read(folder: Path, about: dict[str, Any]) -> Graph | None:
    """The graph, or ``None`` if the form is absent, damaged, of another version or not ``about`` this dataset."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        if manifest["format"] != FORMAT or manifest["about"] != about:
            return None
        if any(sha256_of(folder / name) != checksum for name, checksum in manifest["files"].items()):
            return None
        # copy-on-write: torch wants writable arrays, and the files must never change
        arrays = {
            Path(name).stem: np.load(folder / name, mmap_mode="c", allow_pickle=False) for name in manifest["files"]
        }
        nodes, width = manifest["shape"]
        arrays["adjacency_data"] = np.ones(len(arrays["adjacency_indices"]), dtype=bool)
        features = arrays["features"] if "features" in arrays else _csr("features", arrays, (nodes, width))
        names = manifest["class_names"]
        return Graph._trusted(
            _csr("adjacency", arrays, (nodes, nodes)),
            features,
            np.array(arrays["labels"]),
            None if names is None else tuple(names),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _csr_parts(name: str, matrix: sp.csr_array) -> dict[str, np.ndarray]:
    return {f"{name}_{part}": getattr(matrix, part) for part in ("data", "indices", "indptr")}


def _csr(name: str, arrays: dict[str, np.ndarray], shape: tuple[int, int]) -> sp.csr_array:
    data, indices, indptr = (arrays[f"{name}_{part}"] for part in ("data", "indices", "indptr"))
    matrix = sp.csr_array((data, indices, indptr), shape=shape)
    matrix.has_canonical_format = True  # as written; finding out would read every index
    return matrix
