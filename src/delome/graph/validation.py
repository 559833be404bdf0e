"""What is taken for a graph's features, edges, labels, names and masks, and what is refused."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from delome.errors import GraphError, shown
from delome.graph.sparse import Features, checked_csr, int32_indices

log = logging.getLogger(__name__)


def as_numpy(value: Any) -> np.ndarray:
    """Array of numbers from a tensor, an array or nested lists."""
    try:
        if isinstance(value, torch.Tensor):
            if value.is_nested or value.layout != torch.strided:
                raise ValueError
            value = value.detach().cpu()
            in_numpy = value.dtype in (torch.float16, torch.float32, torch.float64)  # which has no bfloat16
            value = value.float() if value.is_floating_point() and not in_numpy else value
            value = value.resolve_conj().resolve_neg().numpy()
        array = np.asarray(value)
        low, high = np.lib.array_utils.byte_bounds(array)
        # one number can pose as an array of any size: such a view is refused before anything goes through it
        return array if high - low >= array.nbytes else array.copy()
    except MemoryError:
        raise GraphError("features, edges and labels must fit in memory") from None
    except Exception:  # whatever an object of another kind raises when it is taken for an array
        raise GraphError("features, edges and labels must be rectangular arrays of numbers") from None


def _sparse_table(features: Any) -> sp.csr_array:
    """CSR features from a sparse matrix or tensor, none of whose indices leads outside."""
    if features.ndim != 2:
        raise GraphError(f"features must be a table of nodes × features, not {features.ndim}-dimensional")
    try:
        return checked_csr(_scipy_from(features) if isinstance(features, torch.Tensor) else features)
    except MemoryError:
        raise GraphError(f"features of shape {tuple(features.shape)} do not fit in memory") from None
    except (ValueError, TypeError, AttributeError, IndexError, RuntimeError) as error:
        raise GraphError(f"features are a sparse matrix that cannot be read: {error}") from None


def _scipy_from(tensor: torch.Tensor) -> sp.sparray:
    """The same parts, read by scipy, which checks them; torch follows indices wherever they lead."""
    parts: tuple[torch.Tensor, ...]
    if tensor.layout == torch.sparse_coo:
        kind, parts = sp.coo_array, (tensor._values(), tensor._indices())
    elif tensor.layout == torch.sparse_csr:
        kind, parts = sp.csr_array, (tensor.values(), tensor.col_indices(), tensor.crow_indices())
    elif tensor.layout == torch.sparse_csc:
        kind, parts = sp.csc_array, (tensor.values(), tensor.row_indices(), tensor.ccol_indices())
    else:
        raise ValueError(f"convert its layout {tensor.layout} to COO or CSR")
    return kind(tuple(as_numpy(part) for part in parts), shape=tuple(tensor.shape))


def checked_features(features: Any) -> Features:
    """A table of finite numbers as float32, dense or CSR."""
    is_sparse = features.layout != torch.strided if isinstance(features, torch.Tensor) else sp.issparse(features)
    matrix: Any = _sparse_table(features) if is_sparse else as_numpy(features)
    if matrix.dtype.kind not in "fiub":
        raise GraphError(f"features must be numbers, not {matrix.dtype}")
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            if sp.issparse(matrix):
                matrix = matrix.astype(np.float32)
                matrix.sum_duplicates()
                matrix = int32_indices(matrix)
            else:
                matrix = np.array(matrix, dtype=np.float32, order="C")  # a copy: the caller may change theirs
    except MemoryError:
        raise GraphError(f"features of shape {tuple(matrix.shape)} do not fit in memory") from None
    values: np.ndarray = matrix.data if sp.issparse(matrix) else matrix
    if matrix.ndim != 2:
        raise GraphError(f"features must be a table of nodes × features, not {matrix.ndim}-dimensional")
    if 0 in matrix.shape:
        raise GraphError(f"the graph is empty: its features have shape {tuple(matrix.shape)}")
    if not np.isfinite(values).all():
        bad = int(values.size - np.isfinite(values).sum())
        raise GraphError(f"features contain {bad} NaN or infinite values: replace them before loading")
    return matrix


def checked_weights(edge_weight: Any) -> np.ndarray:
    """One weight for each edge, as float32."""
    weights = as_numpy(edge_weight)
    if weights.ndim == 2 and weights.shape[1] == 1:
        weights = weights[:, 0]
    if weights.ndim != 1 or weights.dtype.kind not in "fiub":
        raise GraphError(f"edge weights must be one number for each edge, not of shape {tuple(weights.shape)}")
    with np.errstate(over="ignore", invalid="ignore"):
        weights = weights.astype(np.float32)
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise GraphError("edge weights must be finite and not negative")
    return weights


def checked_adjacency(edge_index: Any, weights: np.ndarray | None, nodes: int, undirected: bool) -> sp.csr_array:
    """Truth values, or weights, of the edges into each node."""
    edges = as_numpy(edge_index)
    if edges.size == 0:
        edges = np.zeros((2, 0), dtype=np.int64)
    if edges.ndim != 2 or edges.shape[0] != 2:
        raise GraphError(f"edges must have shape 2 × E (sources, targets), not {tuple(edges.shape)}")
    if edges.dtype.kind not in "iu":
        raise GraphError(f"edges must be whole numbers, not {edges.dtype}")
    if edges.size and (edges.min() < 0 or edges.max() >= nodes):
        raise GraphError(
            f"edges name node {edges.max() if edges.max() >= nodes else edges.min()}, but nodes are 0 to {nodes - 1}"
        )
    if weights is not None and len(weights) != edges.shape[1]:
        raise GraphError(f"there are {len(weights)} edge weights for {edges.shape[1]} edges")
    source, target = edges
    proper = source != target
    index = np.int32 if nodes < 2**31 else np.int64
    source, target = source[proper].astype(index), target[proper].astype(index)
    if weights is not None:
        return _weighted_adjacency(weights[proper], source, target, nodes, undirected)
    if undirected:
        source, target = np.concatenate([source, target]), np.concatenate([target, source])
    adjacency = sp.csr_array((np.ones(len(source), dtype=bool), (target, source)), shape=(nodes, nodes))
    adjacency.sum_duplicates()
    return adjacency


def _weighted_adjacency(
    weights: np.ndarray, source: np.ndarray, target: np.ndarray, nodes: int, undirected: bool
) -> sp.csr_array:
    adjacency = sp.csr_array((weights, (target, source)), shape=(nodes, nodes))
    adjacency.sum_duplicates()
    if undirected:
        adjacency = sp.csr_array(adjacency.maximum(adjacency.T))
    adjacency.eliminate_zeros()
    if not np.isfinite(adjacency.data).all():
        raise GraphError("the weights of repeated edges add up to more than a number can hold: scale them down")
    return adjacency


def checked_labels(labels: Any, nodes: int, names: tuple[str, ...] | None) -> tuple[np.ndarray, tuple[str, ...] | None]:
    """Labels as whole numbers, and the names they are positions in if they were given as text."""
    text = _as_text(labels)
    values = as_numpy(labels) if text is None else text
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.shape != (nodes,):
        raise GraphError(
            f"there must be one label for each of the {nodes} nodes, but labels have shape {tuple(values.shape)}"
        )
    if text is not None:
        return _numbered(values, names)
    if values.dtype.kind not in "iu":
        raise GraphError(f"labels must be whole numbers, or text, not {values.dtype}")
    if values.min() < -1:
        raise GraphError(f"labels must not be negative, except -1 for unknown ones, but {int(values.min())} occurs")
    if values.max() > np.iinfo(np.int64).max:
        raise GraphError(f"labels must fit into 64 bits with a sign, but {int(values.max())} occurs")
    if names is not None and len(names) <= values.max():
        raise GraphError(
            f"there are {len(names)} class names but label {values.max()} occurs: "
            "give one name for each label from 0 on"
        )
    return values.astype(np.int64), None


def _as_text(labels: Any) -> np.ndarray | None:
    """Labels that are text, empty where they are unknown; none if they are of another kind."""
    if isinstance(labels, torch.Tensor) or (isinstance(labels, np.ndarray) and labels.dtype.kind not in "UO"):
        return None
    try:
        listed = np.asarray(labels, dtype=object)
        plain = ["" if _is_missing(label) else label for label in listed.ravel().tolist()]
    except Exception:  # whatever an object of another kind raises when it is taken for an array
        return None
    if not all(isinstance(label, str) for label in plain) or not any(plain):
        return None
    return np.array(plain).reshape(listed.shape)


def _is_missing(label: Any) -> bool:
    return label is None or (isinstance(label, float) and label != label)


def _numbered(text: np.ndarray, names: tuple[str, ...] | None) -> tuple[np.ndarray, tuple[str, ...]]:
    """Positions of text labels in the names, which are in alphabetical order if none are given; -1 if empty."""
    known = tuple(np.unique(text[text != ""]).tolist()) if names is None else names
    position = {name: number for number, name in enumerate(known)} | {"": -1}
    if absent := sorted(set(text.tolist()) - position.keys()):
        raise GraphError(f"label {shown(absent[0])} is not among the class names")
    return np.array([position[label] for label in text.tolist()], dtype=np.int64), known


def checked_names(names: Any) -> tuple[str, ...]:
    """Names as text."""
    try:
        listed = names.tolist() if isinstance(names, np.ndarray) else names
    except (SystemError, ValueError):  # numpy holds code points that Python does not know
        raise GraphError("class_names hold characters that do not exist: give them as text") from None
    if not isinstance(listed, Sequence) or isinstance(listed, str | bytes):
        raise GraphError(f"class_names must be a list of names, not {shown(names)}")
    if odd := [name for name in listed if not isinstance(name, str | bytes | int | np.integer)]:
        raise GraphError(f"class_names must be text, but {shown(odd[0])} is among them")
    return tuple(name.decode(errors="replace") if isinstance(name, bytes) else str(name) for name in listed)


def checked_masks(masks: dict[str, Any], nodes: int) -> dict[str, np.ndarray]:
    """Boolean masks of all nodes, by name."""
    checked = {}
    for name, mask in masks.items():
        values = as_numpy(mask)
        if values.dtype != bool or values.shape != (nodes,):
            several = "; choose one of the splits, mask[:, k]" if values.ndim == 2 and len(values) == nodes else ""
            raise GraphError(
                f"{name}_mask must hold true or false for each of the {nodes} nodes, "
                f"but it has type {values.dtype} and shape {tuple(values.shape)}{several}"
            )
        checked[name] = values.copy()
    return checked


def checked_attributes(attributes: Mapping[str, Any], nodes: int) -> dict[str, np.ndarray]:
    """Numbers or texts of all nodes, by name."""
    checked = {}
    for name, given in attributes.items():
        values = as_numpy(given)
        if values.ndim == 2 and values.shape[1] == 1:
            values = values[:, 0]
        if values.shape != (nodes,) or values.dtype.kind not in "fiubU":
            raise GraphError(
                f"node attribute '{name}' must be one number or text for each of the {nodes} nodes, "
                f"but it has type {values.dtype} and shape {tuple(values.shape)}"
            )
        checked[str(name)] = values.copy()
    return checked


def usable_attributes(found: Mapping[str, Any], nodes: int) -> dict[str, np.ndarray]:
    """Those of some arrays that can be node attributes; the others are left out with a note."""
    usable: dict[str, np.ndarray] = {}
    for name, values in found.items():
        try:
            usable |= checked_attributes({name: values}, nodes)
        except GraphError as error:
            log.warning("%s: left out", error)
    return usable
