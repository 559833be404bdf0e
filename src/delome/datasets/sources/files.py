"""A user's own graph from a file: the npz layout of the published CSR datasets, or a PyG ``Data`` in a .pt."""

from __future__ import annotations

import pickle
import warnings
import zipfile
from pathlib import Path

import numpy as np
import scipy.sparse as sp
import torch

from delome.datasets.fetching.archives import most_unpacked
from delome.datasets.fetching.arrays import names_of_arrays, read_arrays, reason, require
from delome.errors import DatasetError, GraphError
from delome.graph import Graph
from delome.graph.graph import ATTRIBUTE, MASKS
from delome.graph.sparse import checked_csr
from delome.graph.validation import usable_attributes
from delome.persistence.reading import open_regular

_LAYOUT = "adj_* and attr_* or features"


def load(path: str, undirected: bool = True, weights: bool = True) -> Graph:
    """Reads ``.npz`` or ``.pt``; ``weights=False`` leaves out the weights of its edges."""
    readers = {".npz": _read_npz, ".pt": _read_pt}
    try:
        file = Path(path).expanduser()
        is_file = file.is_file()
    except (OSError, RuntimeError, ValueError) as error:  # a name that is too long, an unknown home
        raise DatasetError(f"cannot open '{path}': {reason(error)}") from None
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
    and node_… (a number or text for each node) if present. ``adj_data`` are weights unless they are all 1."""
    masks = [f"{name}_mask" for name in MASKS]
    arrays = read_arrays(file, [*_matrix("adj"), "features", "labels", "class_names", *masks])
    require(file, arrays, "adj_indices", "adj_indptr", "adj_shape", layout=_LAYOUT)
    adjacency = _csr(file, arrays, "adj")
    if "features" in arrays:
        features = arrays["features"]
    else:
        arrays |= read_arrays(file, _matrix("attr"))
        require(file, arrays, "attr_data", "attr_indices", "attr_indptr", "attr_shape", layout=_LAYOUT)
        features = _csr(file, arrays, "attr")
    edges = adjacency.tocoo()
    attributes = read_arrays(file, [name for name in names_of_arrays(file) if name.startswith(ATTRIBUTE)])
    return Graph(
        np.stack([edges.row, edges.col]),
        features,
        arrays.get("labels"),
        edge_weight=None if (edges.data == 1).all() else edges.data,
        class_names=arrays.get("class_names"),
        undirected=undirected,
        node_attributes=usable_attributes(attributes, adjacency.shape[0]),
        **{mask: arrays.get(mask) for mask in masks},
    )


def _matrix(prefix: str) -> list[str]:
    """Names of the arrays of a CSR matrix."""
    return [f"{prefix}_{part}" for part in ("data", "indices", "indptr", "shape")]


def _csr(file: Path, arrays: dict[str, np.ndarray], prefix: str) -> sp.csr_array:
    indices, indptr = arrays[f"{prefix}_indices"], arrays[f"{prefix}_indptr"]
    data = arrays.get(f"{prefix}_data", np.ones(indices.shape, dtype=np.float32))
    try:
        if indices.dtype.kind not in "iu" or indptr.dtype.kind not in "iu" or data.dtype.kind not in "fiub":
            raise ValueError("indices must be whole numbers and data numbers")
        return checked_csr(sp.csr_array((data, indices, indptr), shape=tuple(arrays[f"{prefix}_shape"].tolist())))
    except (ValueError, TypeError, ArithmeticError, LookupError) as error:
        raise DatasetError(f"'{file}' has a broken {prefix}_* matrix: {reason(error)}") from None


def _unpacked_size(file: Path) -> int:
    """Bytes to which a zip archive unpacks."""
    with open_regular(file) as opened, zipfile.ZipFile(opened) as archive:
        return sum(member.file_size for member in archive.infolist())


def _read_pt(file: Path, undirected: bool) -> Graph:
    """A ``Data`` written with ``torch.save``; only plain tensors are unpickled."""
    from torch_geometric.data import Data
    from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
    from torch_geometric.data.storage import GlobalStorage

    refusal = f"'{file}' is not a PyG Data saved with torch.save"
    try:
        size = _unpacked_size(file)
    except Exception as error:  # a damaged file fails anywhere in the reader of zip archives
        raise DatasetError(f"{refusal}: {reason(error)}") from None
    if size > most_unpacked(file.stat().st_size):  # torch itself does not compress
        raise DatasetError(f"'{file}' is refused: it would unpack to {size:,} bytes, far more than its own size")
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
