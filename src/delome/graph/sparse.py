"""Sparse matrices: when they pay, and their products with dense ones."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from copy import copy
from typing import TypeAlias

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

Features: TypeAlias = np.ndarray | sp.csr_array

SPARSE_BELOW = 0.12
"""Density below which rows are kept sparse: where CSR × dense and dense × dense products take equal time
(benchmarks/first_layer.py)."""


def to_dense(features: Features) -> np.ndarray:
    """The same values as an array."""
    dense: np.ndarray = features if isinstance(features, np.ndarray) else features.toarray()
    return dense


def checked_csr(matrix: sp.sparray | sp.spmatrix) -> sp.csr_array:
    """The same table in CSR form; a ``ValueError`` where an index leads outside, which compiled code would follow."""
    if matrix.format in ("csr", "csc", "bsr"):
        matrix = copy(matrix)  # the check tidies up the matrix it is made on
        _check(matrix)
    elif matrix.format == "coo":
        matrix = sp.coo_array((matrix.data, matrix.coords), shape=matrix.shape)
    elif matrix.format == "dia":
        matrix = sp.dia_array((matrix.data, matrix.offsets), shape=matrix.shape)
    elif matrix.format == "lil":
        sizes = [len(row) for row in matrix.rows]
        if len(sizes) != matrix.shape[0] or sizes != [len(row) for row in matrix.data]:
            raise ValueError("rows and data should have the same sizes")
    csr = sp.csr_array(matrix)
    _check(csr)
    return csr


def _check(matrix: sp.csr_array) -> None:
    if matrix.indices.dtype.kind not in "iu" or matrix.indptr.dtype.kind not in "iu":
        raise ValueError("indices must be whole numbers")
    matrix.check_format(full_check=True)
    if (np.diff(matrix.indptr) < 0).any():  # scipy does not look at it if its end says that there is nothing
        raise ValueError("indptr must be a non-decreasing sequence")


def int32_indices(matrix: sp.csr_array) -> sp.csr_array:
    """The same matrix with 32-bit indices where they fit: half the bytes, and what other libraries expect."""
    if max(*matrix.shape, matrix.nnz) < 2**31:
        matrix.indices, matrix.indptr = matrix.indices.astype(np.int32), matrix.indptr.astype(np.int32)
    return matrix


def is_sparse_enough(matrix: sp.csr_array) -> bool:
    """Whether products with this matrix are faster in sparse form."""
    rows, columns = matrix.shape
    return bool(matrix.nnz < SPARSE_BELOW * rows * columns)


def used_columns(*matrices: Features) -> np.ndarray:
    """Columns in which any of the matrices has a value."""
    used = np.zeros(matrices[0].shape[1], dtype=bool)
    for matrix in matrices:
        if isinstance(matrix, np.ndarray):
            used |= matrix.any(axis=0)
        else:
            used[matrix.indices] = True
    return np.flatnonzero(used)


def take_columns(matrix: Features, columns: np.ndarray) -> Features:
    """Some columns of a matrix; those of a dense one row by row in memory, which indexing would not give."""
    if len(columns) == matrix.shape[1]:
        return matrix
    return np.take(matrix, columns, axis=1) if isinstance(matrix, np.ndarray) else matrix[:, columns]


def narrow(matrix: sp.csr_array) -> tuple[sp.csr_array, np.ndarray]:
    """The matrix without its empty columns, and the columns that are left."""
    used = used_columns(matrix)
    position = np.zeros(matrix.shape[1], dtype=matrix.indices.dtype)
    position[used] = np.arange(len(used))
    return sp.csr_array((matrix.data, position[matrix.indices], matrix.indptr), (matrix.shape[0], len(used))), used


def stack(parts: Sequence[Features]) -> Features:
    """All rows below each other, dense if any of the parts is."""
    if any(isinstance(part, np.ndarray) for part in parts):
        return np.concatenate([to_dense(part) for part in parts])
    return sp.csr_array(sp.vstack(parts))


def widen(rows: np.ndarray, columns: np.ndarray, width: int) -> sp.csr_array:
    """Dense rows of some columns as sparse rows of all ``width`` columns."""
    count, used = rows.shape
    indptr = np.arange(0, count * used + 1, used, dtype=np.int32) if used else np.zeros(count + 1, dtype=np.int32)
    return sp.csr_array((rows.ravel(), np.tile(columns.astype(np.int32), count), indptr), shape=(count, width))


def compact(matrix: sp.csr_array) -> Features:
    """The same values, dense if that is the faster form."""
    return sp.csr_array(matrix) if is_sparse_enough(matrix) else matrix.toarray()


def smaller(matrix: sp.csr_array) -> Features:
    """The same values in the form that takes fewer bytes."""
    rows, columns = matrix.shape
    return sp.csr_array(matrix) if 2 * matrix.nnz < rows * columns else matrix.toarray()


def times(operator: sp.csr_array, features: Features) -> Features:
    """operator @ features; sparse features give a sparse result while that is the faster form."""
    if sp.issparse(features):
        return compact(operator @ features)
    result: np.ndarray = (torch_csr(operator) @ torch.from_numpy(np.require(features, requirements=["C", "W"]))).numpy()
    return result


def torch_csr(matrix: sp.csr_array, device: torch.device | None = None) -> Tensor:
    """The same matrix as a torch CSR tensor."""
    # torch wants row pointers and column indices of one integer type
    index = np.int32 if max(*matrix.shape, matrix.nnz) < 2**31 else np.int64
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse (CSR tensor support|invariant checks)")
        return torch.sparse_csr_tensor(
            torch.from_numpy(matrix.indptr.astype(index, copy=False)),
            torch.from_numpy(matrix.indices.astype(index, copy=False)),
            torch.from_numpy(matrix.data),
            size=matrix.shape,
            device=device,
            check_invariants=False,
        )
