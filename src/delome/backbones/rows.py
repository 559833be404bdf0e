"""Feature rows times a weight matrix, dense or sparse, whichever is faster for their density."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from delome.sparse import Features, is_sparse_enough, to_dense, torch_csr, used_columns


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

    def transposed_times(self, dense: Tensor) -> Tensor:
        """matrixᵀ @ dense, not differentiable."""
        product = self.backwards @ dense
        if self.columns is None:
            return product
        whole = product.new_zeros(self.matrix.shape[1], product.shape[1])
        return whole.index_copy_(0, self.columns, product)


class _SparseTimesDense(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, matrix: SparseMatrix, dense: Tensor) -> Tensor:
        ctx.matrix = matrix
        return matrix.forwards @ (dense if matrix.columns is None else dense[matrix.columns])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, Tensor]:
        return None, ctx.matrix.transposed_times(gradients[0].contiguous())


class Rows:
    """Rows of features on a device; ``times(weight)`` is their product with a weight matrix."""

    def __init__(self, content: Tensor | SparseMatrix) -> None:
        self.content = content

    @classmethod
    def of(cls, features: Features, device: torch.device) -> Rows:
        """Dense or sparse, by density."""
        if not isinstance(features, np.ndarray) and is_sparse_enough(features):
            return cls(SparseMatrix(features, device))
        return cls(torch.from_numpy(np.ascontiguousarray(to_dense(features))).to(device))

    @classmethod
    def join(cls, parts: Sequence[Rows]) -> Rows:
        """All rows below each other; sparse only if all parts are."""
        if len(parts) == 1:
            return parts[0]
        device = parts[0].device
        if all(isinstance(part.content, SparseMatrix) for part in parts):
            return cls(SparseMatrix(sp.csr_array(sp.vstack([part.content.matrix for part in parts])), device))  # type: ignore[union-attr]
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

    def times(self, weight: Tensor) -> Tensor:
        if isinstance(self.content, SparseMatrix):
            return self.content.times(weight)
        return self.content @ weight
