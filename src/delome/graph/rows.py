"""Feature rows times a weight matrix, dense or sparse, whichever is faster for their density."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from delome.graph.sparse import SPARSE_BELOW, Features, is_sparse_enough, to_dense, torch_csr, used_columns

COST_OF_A_COLUMN = 30
"""Gathering a column's weights and scattering their gradient costs as much as this many rows of a dense product."""


class SparseMatrix:
    """Constant sparse matrix for products with a dense one, forwards and (transposed, made once) backwards.

    Rows of one task use few of a bag-of-words graph's columns: only those are multiplied, in dense form if they
    are dense enough among themselves.
    """

    def __init__(self, matrix: sp.csr_array, device: torch.device) -> None:
        self.matrix, self.device = matrix, device

    @cached_property
    def columns(self) -> Tensor | None:
        """Columns in use, if they are less than half of all."""
        used = used_columns(self.matrix)
        return torch.from_numpy(used).to(self.device) if 2 * len(used) < self.matrix.shape[1] else None

    @cached_property
    def _narrow(self) -> sp.csr_array:
        return self.matrix if self.columns is None else self.matrix[:, self.columns.cpu().numpy()]

    @cached_property
    def _is_dense(self) -> bool:
        return self.columns is not None and not is_sparse_enough(self._narrow)

    @cached_property
    def forwards(self) -> Tensor:
        if self._is_dense:
            return torch.from_numpy(self._narrow.toarray()).to(self.device)
        return torch_csr(self._narrow, self.device)

    @cached_property
    def backwards(self) -> Tensor:
        return self.forwards.T if self._is_dense else torch_csr(sp.csr_array(self._narrow.T), self.device)

    def times(self, dense: Tensor) -> Tensor:
        """matrix @ dense, differentiable in ``dense``."""
        product: Tensor = _SparseTimesDense.apply(self, dense)
        return product

    def product(self, dense: Tensor) -> Tensor:
        """matrix @ dense."""
        return self.forwards @ (dense if self.columns is None else dense[self.columns])

    def transposed_product(self, dense: Tensor) -> Tensor:
        """matrixᵀ @ dense."""
        return self.add_transposed_product(dense, dense.new_zeros(self.matrix.shape[1], dense.shape[1]))

    def add_transposed_product(self, dense: Tensor, total: Tensor) -> Tensor:
        """total + matrixᵀ @ dense, in place."""
        product = self.backwards @ dense
        return total.add_(product) if self.columns is None else total.index_add_(0, self.columns, product)

    def cost(self) -> float:
        """Time of a product, in units of one entry of a dense matrix."""
        if self._is_dense:
            return float((self.matrix.shape[0] + COST_OF_A_COLUMN) * len(self.forwards.T))
        return float(self.matrix.nnz / SPARSE_BELOW)


class BlockMatrix(SparseMatrix):
    """Sparse matrices below each other that use different columns: each is multiplied with its own columns only."""

    def __init__(self, parts: Sequence[SparseMatrix]) -> None:
        super().__init__(_stack(parts), parts[0].device)
        self.parts = parts

    def product(self, dense: Tensor) -> Tensor:
        return torch.cat([part.product(dense) for part in self.parts])

    def add_transposed_product(self, dense: Tensor, total: Tensor) -> Tensor:
        for part, rows in zip(self.parts, dense.split([part.matrix.shape[0] for part in self.parts]), strict=True):
            part.add_transposed_product(rows, total)
        return total


def _stack(parts: Sequence[SparseMatrix]) -> sp.csr_array:
    return sp.csr_array(sp.vstack([part.matrix for part in parts]))


class _SparseTimesDense(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, matrix: SparseMatrix, dense: Tensor) -> Tensor:
        ctx.matrix = matrix
        return matrix.product(dense)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, Tensor]:
        return None, ctx.matrix.transposed_product(gradients[0].contiguous())


class Rows:
    """Rows of features on a device; ``times(weight)`` is their product with a weight matrix."""

    def __init__(self, content: Tensor | SparseMatrix) -> None:
        self.content = content

    @classmethod
    def of(cls, features: Features, device: torch.device) -> Rows:
        """Dense or sparse, whichever is faster."""
        if not isinstance(features, np.ndarray):
            sparse = SparseMatrix(features, device)
            if is_sparse_enough(features) or sparse.columns is not None:
                return cls(sparse)
        return cls(torch.from_numpy(np.ascontiguousarray(to_dense(features))).to(device))

    @classmethod
    def join(cls, parts: Sequence[Rows]) -> Rows:
        """All rows below each other, in the form whose products cost least."""
        if len(parts) == 1:
            return parts[0]
        sparse = [part.content for part in parts if isinstance(part.content, SparseMatrix)]
        if len(sparse) == len(parts):
            dense_cost = sum(matrix.matrix.shape[0] for matrix in sparse) * sparse[0].matrix.shape[1]
            csr_cost = sum(matrix.matrix.nnz for matrix in sparse) / SPARSE_BELOW
            blocks_cost = sum(matrix.cost() for matrix in sparse)
            if blocks_cost < min(csr_cost, dense_cost):
                return cls(BlockMatrix(sparse))
            if csr_cost < dense_cost:
                return cls(SparseMatrix(_stack(sparse), parts[0].device))
        return cls(torch.cat([part.dense() for part in parts]))

    @property
    def device(self) -> torch.device:
        return self.content.device

    def __len__(self) -> int:
        shape = self.content.matrix.shape if isinstance(self.content, SparseMatrix) else self.content.shape
        return int(shape[0])

    def dense(self) -> Tensor:
        if isinstance(self.content, SparseMatrix):
            return torch.from_numpy(self.content.matrix.toarray()).to(self.device)
        return self.content

    def select(self, index: np.ndarray) -> Rows:
        if isinstance(self.content, SparseMatrix):
            return Rows(SparseMatrix(self.content.matrix[index], self.device))
        return Rows(self.content[torch.from_numpy(index).to(self.device)])

    def dropped(self, rate: float, noise: torch.Generator) -> Rows:
        """The rows with a share of their values set to zero, the others scaled up to keep the mean."""

        def mask(values: Tensor) -> Tensor:
            return (torch.rand(values.shape, generator=noise, device=self.device) >= rate) / (1 - rate)

        if isinstance(self.content, SparseMatrix):
            matrix = self.content.matrix
            data = matrix.data * mask(torch.from_numpy(matrix.data)).cpu().numpy()
            return Rows(SparseMatrix(sp.csr_array((data, matrix.indices, matrix.indptr), matrix.shape), self.device))
        return Rows(self.content * mask(self.content))

    def times(self, weight: Tensor) -> Tensor:
        if isinstance(self.content, SparseMatrix):
            return self.content.times(weight)
        return self.content @ weight
