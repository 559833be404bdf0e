"""How far memory rows Z are from real rows R under a kernel: the squared maximum mean discrepancy, and its gradient.

MMD²(R, Z) = mean K(R, R) - 2 mean K(R, Z) + mean K(Z, Z)
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from delome.graph.rows import SparseMatrix
from delome.graph.sparse import Features, is_sparse_enough, to_dense
from delome.memories.kernel import CPU, Kernel

MEASURED_ROWS = 4096
"""Rows on which the loss reached is measured, if a class has more."""


def lengths(features: Features) -> np.ndarray:
    """Euclidean length of each row."""
    if isinstance(features, np.ndarray):
        squares: np.ndarray = np.einsum("ij,ij->i", features, features)
    else:
        squares = features.power(2).sum(axis=1)
    found: np.ndarray = np.sqrt(squares, dtype=np.float32)
    return found


class RealRows:
    """Real rows of one class: their norms, and the two products that matching needs, dense or sparse."""

    def __init__(self, content: Tensor | SparseMatrix, norms: Tensor | None = None) -> None:
        self.content = content
        if norms is not None:
            self.norms = norms
        elif isinstance(content, SparseMatrix):
            self.norms = torch.from_numpy(lengths(content.matrix)).to(content.device)
        else:
            self.norms = content.norm(dim=1)

    @classmethod
    def of(cls, features: Features, device: torch.device) -> RealRows:
        """Sparse if that is faster."""
        if not isinstance(features, np.ndarray) and is_sparse_enough(features):
            return cls(SparseMatrix(features, device))
        return cls(torch.from_numpy(np.ascontiguousarray(to_dense(features))).to(device))

    def __len__(self) -> int:
        return len(self.norms)

    def inner(self, memory: Tensor) -> Tensor:
        """Inner products of memory rows with real rows."""
        if isinstance(self.content, SparseMatrix):
            return self.content.product(memory.T.contiguous()).T
        return memory @ self.content.T

    def combine(self, weights: Tensor) -> Tensor:
        """Weighted sums of real rows."""
        if isinstance(self.content, SparseMatrix):
            return self.content.transposed_product(weights.T.contiguous()).T
        return weights @ self.content

    def mean_kernel(self, kernel: Kernel, block: int = 256) -> Tensor:
        """mean K(R, R), in blocks of rows with themselves and with all rows below them, which count twice."""
        total = self.norms.new_zeros((), dtype=torch.float64)
        for start in range(0, len(self), block):
            below, norms = self._from(start), self.norms[start:]
            if isinstance(self.content, SparseMatrix):
                part = torch.from_numpy(self.content.matrix[start : start + block].toarray()).to(norms.device)
            else:
                part = self.content[start : start + block]
            values = kernel.values(below.inner(part), norms[:block], norms)
            total += 2 * values.double().sum() - values[:, :block].double().sum()
        return (total / len(self) ** 2).to(self.norms.dtype)

    def _from(self, start: int) -> RealRows:
        content = self.content
        if isinstance(content, SparseMatrix):
            return RealRows(SparseMatrix(content.matrix[start:], content.device), self.norms[start:])
        return RealRows(content[start:], self.norms[start:])


def mmd(kernel: Kernel, real: RealRows, memory: Tensor, mean_real: Tensor) -> tuple[Tensor, Tensor]:
    """MMD² between real and memory rows, and its gradient with respect to the memory rows."""
    n, b = len(real), len(memory)
    norms = memory.norm(dim=1)
    cross, along, radial = kernel.sum_and_slopes(real.inner(memory), norms, real.norms)
    cross_slope = real.combine(along) + radial[:, None] * memory
    own, own_along, own_radial = kernel.sum_and_slopes(memory @ memory.T, norms, norms, same=True)
    own_slope = own_along @ memory + own_radial[:, None] * memory
    loss = mean_real - 2 / (n * b) * cross + own / b**2
    gradient = -2 / (n * b) * cross_slope + 2 / b**2 * own_slope + kernel.slope_with_itself / b**2 * memory
    return loss, gradient


class Yardstick:
    """Measures the relative loss MMD²(R, Z) / mean K(R, R) of memory rows Z for real rows R.

    It is the share of the class's mean gradient (squared norm) that the memory does not reproduce. With more than
    `MEASURED_ROWS` real rows it is measured on a random sample, without the bias that a sample's own spread adds.
    """

    def __init__(self, kernel: Kernel, real: Features, rng: np.random.Generator, device: torch.device = CPU) -> None:
        n = real.shape[0]
        if n > MEASURED_ROWS:
            real = real[rng.choice(n, MEASURED_ROWS, replace=False)]
        self.kernel, self.sample = kernel, RealRows.of(real, device)
        self.sees_all = len(self.sample) == n
        m = len(self.sample)
        mean = self.sample.mean_kernel(kernel).double()
        diagonal = kernel.of_itself(self.sample.norms).double().mean()
        apart = (m * mean - diagonal) / max(m - 1, 1)
        self.mean_real = (diagonal + (n - 1) * apart) / n if m > 1 else mean

    def __call__(self, memory: Tensor) -> float:
        loss, _ = mmd(self.kernel, self.sample, memory, self.mean_real)
        return float(loss / self.mean_real) if self.mean_real > 0 else 0.0


def relative_loss(kernel: Kernel, real: Features, memory: np.ndarray, rng: np.random.Generator) -> float:
    """How far memory rows are from lossless: see `Yardstick`."""
    return Yardstick(kernel, real, rng)(torch.from_numpy(memory))
