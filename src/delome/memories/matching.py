"""Memory rows with the least distance to real rows under a kernel, found by a few dozen quasi-Newton steps.

The distance depends on inner products alone and has an analytic gradient. Rows are scaled to mean norm 1, so that
nothing depends on the units of the features.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from delome.errors import DivergenceError
from delome.graph.sparse import Features, to_dense
from delome.memories.kernel import Kernel
from delome.memories.lbfgs import minimise
from delome.memories.mmd import RealRows, Yardstick, lengths, mmd

Regime = Literal["gram", "direct", "batch"]

SPARE_DIRECTIONS = 60
"""Memory rows are first sought in the span of this many more principal directions than there are memory rows."""
POLISH = 3
"""Iterations in all columns that follow those in the span."""
BATCH_ABOVE = 10_000
"""Above this many rows, each step sees a fresh batch of the real rows."""
BATCH_ROWS = 1000
BATCH_STALL, BATCH_STALL_STEPS = 0.01, 10
"""Batch descent stops when this many steps together lower the loss by less than this share."""
ITERATIONS = 60
RIDGE = 3.0
"""What is added to the closeness of rows; it matters little (0.3 to 10 were tried)."""


@dataclass(frozen=True)
class Matched:
    """Learned rows of one class, how they were reached, and their `Yardstick` loss."""

    rows: np.ndarray
    steps: int
    regime: Regime
    loss: float


def match(
    real: Features,
    weights: np.ndarray | sp.csr_array,
    kernel: Kernel,
    rng: np.random.Generator,
    device: torch.device,
    regime: Regime | None = None,
    iterations: int = ITERATIONS,
) -> Matched:
    """Memory rows that match the real rows, starting from the combinations ``weights @ real``.

    ``regime`` is chosen by size: Gram coordinates for few wide rows, all rows directly, or a fresh batch of rows at
    each step for many. A kernel of directions says nothing about lengths: learned rows get the mean one of real rows.
    """
    rows, columns = real.shape
    rank = weights.shape[0] + SPARE_DIRECTIONS
    if regime is None:
        regime = "gram" if rows < columns and rows <= rank else "batch" if rows > BATCH_ABOVE else "direct"
    scale = float(lengths(real).mean())
    if scale == 0:
        return Matched(np.asarray(to_dense(weights @ real), dtype=np.float32), 0, regime, 0.0)
    if not math.isfinite(scale):
        raise DivergenceError("the features are too large for the lengths of their rows to be computed: scale them")
    scaled = real * np.float32(1 / scale)
    yardstick = Yardstick(kernel, scaled, rng, device)
    start = torch.from_numpy(np.asarray(to_dense(weights @ scaled), dtype=np.float32)).to(device)
    if regime == "gram":
        coordinates, back = gram_coordinates(scaled)
        begin = torch.from_numpy(np.asarray(weights @ coordinates.numpy(), dtype=np.float32)).to(device)
        found, steps = quasi_newton(kernel, RealRows(coordinates.to(device)), yardstick.mean_real, begin, iterations)
        learned = torch.from_numpy(np.asarray(back(found.cpu().numpy()) @ scaled, dtype=np.float32)).to(device)
    elif regime == "batch":
        learned, steps = _batch_descent(scaled, start, yardstick, rng, device, iterations)
    else:
        learned, steps = _direct(scaled, start, yardstick, rng, device, iterations)
    if kernel.directions:
        learned = torch.nn.functional.normalize(learned)
    return Matched(scale * learned.cpu().numpy(), steps, regime, yardstick(learned))


def weighted_rows(
    real: Features, combinations: np.ndarray | sp.csr_array, stand_for: np.ndarray
) -> tuple[Features, np.ndarray | sp.csr_array]:
    """Rows scaled by the numbers of rows they stand for, in units of their mean, and the same combinations of these."""
    scale = (stand_for / stand_for.mean()).astype(np.float32)
    return sp.diags_array(scale) @ real, combinations @ sp.diags_array(1 / scale)


def gram_coordinates(real: Features) -> tuple[Tensor, Callable[[np.ndarray], np.ndarray]]:
    """Coordinates of rows in an orthonormal basis of their span, and the way back to weights of the rows.

    The Cholesky factor L of the Gram matrix R Rᵀ = L Lᵀ has the same inner products as R; rows Z = C L⁻¹ R have
    coordinates C.
    """
    gram = torch.from_numpy(np.asarray(to_dense(real @ real.T), dtype=np.float64))
    identity = torch.eye(len(gram), dtype=torch.float64) * gram.trace() / len(gram)
    for jitter in 10.0 ** np.arange(-6, 1):  # rows that repeat each other need a little more
        factor, failed = torch.linalg.cholesky_ex(gram + jitter * identity)
        if not failed:
            break

    def weights_of(coordinates: np.ndarray) -> np.ndarray:
        wanted = torch.from_numpy(coordinates).double()
        found: np.ndarray = torch.linalg.solve_triangular(factor, wanted, upper=False, left=False).numpy()
        return found

    return factor.float(), weights_of


def principal_directions(features: Features, real: RealRows, rank: int, rng: np.random.Generator) -> Tensor:
    """Orthonormal columns that nearly span the ``rank`` directions in which rows are largest.

    A step of subspace iteration, from sums of random groups of rows with random signs.
    """
    rows = len(real)
    signs = rng.choice(np.array([-1, 1], dtype=np.float32), rows)
    groups = sp.csr_array((signs, (rng.permutation(rows) % rank, np.arange(rows))), shape=(rank, rows))
    sketch = torch.from_numpy(to_dense(groups @ features)).to(real.norms.device)
    largest = real.combine(real.inner(torch.linalg.qr(sketch.T)[0].T))
    basis: Tensor = torch.linalg.qr(largest.T)[0]
    return basis


def quasi_newton(
    kernel: Kernel, real: RealRows, mean_real: Tensor, start: Tensor, iterations: int
) -> tuple[Tensor, int]:
    """Memory rows Z from L-BFGS, and the number of iterations.

    Rows of a class are close to each other, so that moving all of them together changes the distance much, and moving
    them against each other little. The Gauss-Newton Hessian of the distance is about (a + w)/b² M in every column,
    where M is the `closeness` of rows. With M + `RIDGE` = L Lᵀ, L-BFGS moves Lᵀ Z instead, in which it is flatter.
    """
    budget = len(start)
    identity = torch.eye(budget, dtype=torch.float64, device=start.device)
    factor = torch.linalg.cholesky(kernel.closeness(start).double() + RIDGE * identity)
    spread = torch.linalg.solve_triangular(factor, identity, upper=False).T.to(start.dtype)

    def objective(moved: Tensor) -> tuple[Tensor, Tensor]:
        loss, gradient = mmd(kernel, real, spread @ moved, mean_real)
        return loss, spread.T @ gradient

    curvature = (kernel.a + kernel.w) / budget**2
    moved, steps = minimise(objective, factor.T.to(start.dtype) @ start, iterations, curvature)
    return spread @ moved, steps


def _direct(
    features: Features,
    start: Tensor,
    yardstick: Yardstick,
    rng: np.random.Generator,
    device: torch.device,
    iterations: int,
) -> tuple[Tensor, int]:
    """All real rows at each step; first in the span of their principal directions, if that is much smaller.

    Inner products with memory rows of the span, and the norms of real rows, are exact: only where memory rows may lie
    is restricted, and a few iterations without the restriction make up for it.
    """
    kernel = yardstick.kernel
    real = yardstick.sample if yardstick.sees_all else RealRows.of(features, device)
    mean_real = yardstick.mean_real if yardstick.sees_all else real.mean_kernel(kernel)
    rank = len(start) + SPARE_DIRECTIONS
    rows, columns = features.shape
    if rank >= rows or 2 * rank > columns:
        return quasi_newton(kernel, real, mean_real, start, iterations)
    basis = principal_directions(features, real, rank, rng)
    coordinates = RealRows(real.inner(basis.T).T.contiguous(), real.norms)
    found, steps = quasi_newton(kernel, coordinates, mean_real, start @ basis, iterations)
    polished, more = quasi_newton(kernel, real, mean_real, found @ basis.T, min(POLISH, iterations))
    return polished, steps + more


def _batch_descent(
    real: Features,
    start: Tensor,
    yardstick: Yardstick,
    rng: np.random.Generator,
    device: torch.device,
    iterations: int,
) -> tuple[Tensor, int]:
    """Gradient descent with momentum, the cross term of each step from a fresh batch of real rows, until it stalls.

    The step b/(a + w) and momentum 0.5 suit any units: the curvature in a row is about (a + w)/b.
    """
    kernel, memory = yardstick.kernel, start
    velocity = torch.zeros_like(memory)
    step_size = len(start) / (kernel.a + kernel.w)
    zero = memory.new_zeros(())
    before = math.inf
    for step in range(1, 2 * iterations + 1):
        batch = RealRows.of(real[rng.choice(real.shape[0], BATCH_ROWS, replace=False)], device)
        _, gradient = mmd(kernel, batch, memory, zero)
        velocity = 0.5 * velocity - step_size * gradient
        memory = memory + velocity
        if step % BATCH_STALL_STEPS == 0:
            loss = yardstick(memory)
            if not loss <= (1 - BATCH_STALL) * before:
                break
            before = loss
    return memory, step
