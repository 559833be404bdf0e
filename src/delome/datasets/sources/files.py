"""A user's own graph from a file: the npz layout of the published CSR datasets, or a PyG ``Data`` in a .pt."""

from __future__ import annotations

import pickle
import warnings
import zipfile
from collections.abc import Collection
from pathlib import Path
from typing import BinaryIO

import numpy as np
import scipy.sparse as sp
import torch

from delome.errors import DatasetError, GraphError
from delome.graph import Graph
from delome.graph.sparse import checked_csr

_LAYOUT = "adj_* and attr_* or features"


def load(path: str, undirected: bool = True, weights: bool = True) -> Graph:
    """Reads ``.npz`` or ``.pt``; ``weights=False`` leaves out the weights of its edges."""
    readers = {".npz": _read_npz, ".pt": _read_pt}
    try:
        file = Path(path).expanduser()
        is_file = file.is_file()
    except (OSError, RuntimeError, ValueError) as error:  # a name that is too long, a home that nobody has
        raise DatasetError(f"cannot open '{path}': {_reason(error)}") from None
    if file.suffix not in readers:
        raise DatasetError(f"cannot read '{path}': expected a file that ends in .npz or .pt")
    if not is_file:
        raise DatasetError(f"there is no file '{path}': check the path after 'file:'")
    try:
        graph = readers[file.suffix](file, undirected)
    except GraphError as error:
        raise GraphError(f"'{path}' holds no usable graph: {error}") from None
    return graph if weights else graph.unweighted()


def _read_npz(file: Path, undirected: bool) -> Graph:
    """Layout: adj_{data,indices,indptr,shape}, attr_{…} or dense features; labels, class_names, {train,val,test}_mask
    if they are there. ``adj_data`` are weights unless they are all 1."""
    arrays = read_arrays(file)
    require(file, arrays, "adj_indices", "adj_indptr", "adj_shape", layout=_LAYOUT)
    adjacency = _csr(file, arrays, "adj")
    if "features" in arrays:
        features = arrays["features"]
    else:
        require(file, arrays, "attr_data", "attr_indices", "attr_indptr", "attr_shape", layout=_LAYOUT)
        features = _csr(file, arrays, "attr")
    edges = adjacency.tocoo()
    return Graph(
        np.stack([edges.row, edges.col]),
        features,
        arrays.get("labels"),
        edge_weight=None if (edges.data == 1).all() else edges.data,
        class_names=arrays.get("class_names"),
        undirected=undirected,
        **{mask: arrays.get(mask) for mask in ("train_mask", "val_mask", "test_mask")},
    )


def read_arrays(file: Path, names: Collection[str] | None = None) -> dict[str, np.ndarray]:
    """The arrays of an npz archive that are plain numbers or text, or those of them with one of these names."""
    if not _is_archive(file):
        raise DatasetError(f"'{file}' is not a readable npz archive: it is damaged or of another kind")
    try:
        with file.open("rb") as opened, _archive(opened) as archive, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the version of Python that wrote it
            wanted = [name for name in archive.files if names is None or name in names]
            return {name: array for name in wanted if (array := _plain(archive, name)) is not None}
    except Exception as error:  # a damaged file fails anywhere in the readers of zip archives and arrays
        raise DatasetError(f"'{file}' is not a readable npz archive: {_reason(error)}") from None


def _is_archive(file: Path) -> bool:
    try:
        return zipfile.is_zipfile(file)
    except zipfile.BadZipFile:  # as it was damaged in the place that is looked at
        return False


def _reason(error: Exception) -> str:
    """What an error of a library says, in one line."""
    said = getattr(error, "strerror", None) or str(error)
    return " ".join(said.split()) or f"{type(error).__name__} while reading it"


def _archive(opened: BinaryIO) -> np.lib.npyio.NpzFile:
    archive = np.load(opened, allow_pickle=False)
    if not isinstance(archive, np.lib.npyio.NpzFile):
        raise ValueError("it holds a single array")
    return archive


def _plain(archive: np.lib.npyio.NpzFile, name: str) -> np.ndarray | None:
    """One array; ``None`` for the pickled ones (names of nodes) that published archives carry: never unpickled."""
    try:
        member = archive[name]
        return member if isinstance(member, np.ndarray) else None  # numpy gives bytes if it does not begin as an array
    except ValueError as error:
        if "allow_pickle" in str(error):
            if name == "labels":
                raise ValueError("its labels are pickled objects, which are never read: save whole numbers") from None
            return None
        raise


def require(file: Path, arrays: dict[str, np.ndarray], *names: str, layout: str | None = None) -> None:
    """Refuses an archive without one of these arrays; ``layout`` says in words what it must hold."""
    if missing := [name for name in names if name not in arrays]:
        raise DatasetError(f"'{file}' has no array '{missing[0]}': it must hold {layout or ', '.join(names)}")


def _csr(file: Path, arrays: dict[str, np.ndarray], prefix: str) -> sp.csr_array:
    indices, indptr = arrays[f"{prefix}_indices"], arrays[f"{prefix}_indptr"]
    data = arrays.get(f"{prefix}_data", np.ones(indices.shape, dtype=np.float32))
    try:
        if indices.dtype.kind not in "iu" or indptr.dtype.kind not in "iu" or data.dtype.kind not in "fiub":
            raise ValueError("indices must be whole numbers and data numbers")
        return checked_csr(sp.csr_array((data, indices, indptr), shape=tuple(arrays[f"{prefix}_shape"].tolist())))
    except (ValueError, TypeError, ArithmeticError, LookupError) as error:
        raise DatasetError(f"'{file}' has a broken {prefix}_* matrix: {_reason(error)}") from None


def _read_pt(file: Path, undirected: bool) -> Graph:
    """A ``Data`` written with ``torch.save``; only plain tensors are unpickled."""
    from torch_geometric.data import Data
    from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
    from torch_geometric.data.storage import GlobalStorage

    refusal = f"'{file}' is not a PyG Data saved with torch.save"
    if not _is_archive(file):
        raise DatasetError(f"{refusal}: it is damaged or of another kind")
    # on leaving, safe_globals also takes away what PyG has registered itself: only what is missing is lent
    needed = [Data, DataEdgeAttr, DataTensorAttr, GlobalStorage]
    missing = [each for each in needed if each not in torch.serialization.get_safe_globals()]
    try:
        with torch.serialization.safe_globals(missing), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the version of pickle that wrote it
            data = torch.load(file, weights_only=True, map_location="cpu")
    except pickle.UnpicklingError:
        raise DatasetError(f"{refusal}: it holds objects other than tensors and plain values") from None
    except Exception as error:  # a damaged file fails anywhere in torch's reader
        raise DatasetError(f"{refusal}: {type(error).__name__} while reading it") from None
    if not isinstance(data, Data):
        raise DatasetError(f"'{file}' holds a {type(data).__name__}, not a torch_geometric.data.Data")
    try:
        return Graph.from_pyg(data, undirected=undirected)
    except (RuntimeError, TypeError, LookupError) as error:  # a Data that lacks its own parts
        raise DatasetError(f"{refusal}: {type(error).__name__} while reading it") from None
