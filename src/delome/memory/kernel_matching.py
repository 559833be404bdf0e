"""Exact matching: the paper's objective, a sum over random networks, minimised in closed form.

The expected squared distance between the loss gradients of real rows R and memory rows Z of a class is, up to a
constant, the squared maximum mean discrepancy of the network's tangent kernel K:

    MMD²(R, Z) = mean K(R, R) - 2 mean K(R, Z) + mean K(Z, Z)

It depends on inner products alone, has an analytic gradient, and is minimised by a few dozen quasi-Newton steps. Rows
are scaled to mean norm 1 (K is homogeneous), so that nothing depends on the units of the features.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import numpy as np
import scipy.sparse as sp
import torch
from threadpoolctl import threadpool_limits
from torch import Tensor

from delome.backbones.rows import SparseMatrix
from delome.columns import LabelColumns
from delome.errors import DivergenceError
from delome.memory.bank import Memory
from delome.memory.initial import Initial, initial_weights
from delome.memory.kernel import CPU, Kernel
from delome.memory.merging import Earlier
from delome.sparse import Features, is_sparse_enough, smaller, stack, to_dense, used_columns, widen
from delome.stream import Observation
from delome.tracking import Tracker

Result = TypeVar("Result")
Regime = Literal["gram", "direct", "batch"]
KernelName = Literal["ntk", "arc-cosine"]

GRAM_ROWS = 2000
"""Up to this many rows, if the features are wider, a class is matched in Gram coordinates."""
BATCH_ABOVE = 10_000
"""Above this many rows, each step sees a fresh batch of the real rows."""
BATCH_ROWS, BATCH_STALL_STEPS = 1000, 10
MEASURED_ROWS = 4096
"""Rows on which the loss reached is measured, if a class has more."""
ITERATIONS = 60
STALL, STALL_STEPS = 0.01, 5
"""Stop when this many iterations together lower the loss by less than this share."""


class RealRows:
    """Real rows of one class: their norms, and the two products that matching needs, dense or sparse."""

    def __init__(self, content: Tensor | SparseMatrix) -> None:
        self.content = content
        if isinstance(content, SparseMatrix):
            lengths = np.sqrt(content.matrix.power(2).sum(axis=1))
            self.norms = torch.from_numpy(lengths.astype(np.float32)).to(content.device)
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

    def mean_kernel(self, kernel: Kernel, block: int = 512) -> Tensor:
        """mean K(R, R), in blocks of rows."""
        total = self.norms.new_zeros((), dtype=torch.float64)
        for start in range(0, len(self), block):
            if isinstance(self.content, SparseMatrix):
                part = torch.from_numpy(self.content.matrix[start : start + block].toarray()).to(self.norms.device)
            else:
                part = self.content[start : start + block]
            total += kernel.values(self.inner(part), self.norms[start : start + block], self.norms).double().sum()
        return (total / len(self) ** 2).to(self.norms.dtype)


def mmd(kernel: Kernel, real: RealRows, memory: Tensor, mean_real: Tensor) -> tuple[Tensor, Tensor]:
    """MMD² between real and memory rows, and its gradient with respect to the memory rows."""
    n, b = len(real), len(memory)
    norms = memory.norm(dim=1)
    cross, along, radial = kernel.values_and_slopes(real.inner(memory), norms, real.norms)
    cross_slope = real.combine(along) + radial[:, None] * memory
    own, own_along, own_radial = kernel.values_and_slopes(memory @ memory.T, norms, norms, same=True)
    own_slope = own_along @ memory + own_radial[:, None] * memory
    loss = mean_real - 2 * cross.mean() + own.mean()
    gradient = -2 / (n * b) * cross_slope + 2 / b**2 * own_slope + (kernel.a + kernel.w) / b**2 * memory
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


@dataclass(frozen=True)
class Matched:
    """Learned rows of one class, and how they were reached."""

    rows: np.ndarray
    steps: int
    regime: Regime


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
    each step for many.
    """
    rows, columns = real.shape
    if regime is None:
        wide = rows < columns and rows <= GRAM_ROWS
        regime = "gram" if wide else "batch" if rows > BATCH_ABOVE else "direct"
    whole = RealRows.of(real, CPU)
    scale = float(whole.norms.mean())
    start = np.asarray(to_dense(weights @ real), dtype=np.float32)
    if scale == 0:
        return Matched(start, 0, regime)
    if not math.isfinite(scale):
        raise DivergenceError("the features are too large for the lengths of their rows to be computed: scale them")
    scaled = real * np.float32(1 / scale)
    if regime == "gram":
        coordinates, back = gram_coordinates(scaled)
        begin = np.asarray(weights @ coordinates.numpy(), dtype=np.float32)
        learned, steps = _quasi_newton(RealRows(coordinates.to(device)), begin, kernel, device, iterations)
        return Matched(np.asarray(back(learned) @ real, dtype=np.float32), steps, regime)
    if regime == "batch":
        learned, steps = _batch_descent(scaled, start / scale, kernel, rng, device, iterations)
    else:
        learned, steps = _quasi_newton(RealRows.of(scaled, device), start / scale, kernel, device, iterations)
    return Matched(scale * learned, steps, regime)


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


def _quasi_newton(
    real: RealRows, start: np.ndarray, kernel: Kernel, device: torch.device, iterations: int
) -> tuple[np.ndarray, int]:
    """L-BFGS until the loss stalls."""
    mean_real = real.mean_kernel(kernel)
    memory = torch.from_numpy(start).to(device).requires_grad_()
    optimizer = torch.optim.LBFGS(
        [memory],
        max_iter=min(STALL_STEPS, iterations),
        max_eval=4 * STALL_STEPS,
        history_size=10,
        tolerance_grad=0,
        tolerance_change=0,
        line_search_fn="strong_wolfe",
    )

    @torch.no_grad()
    def objective() -> Tensor:
        loss, gradient = mmd(kernel, real, memory, mean_real)
        # times the number of rows, so that a row's gradient does not shrink with the budget
        share = len(start) / mean_real
        memory.grad = (gradient * share).contiguous()
        return loss * share

    before = math.inf
    while True:
        loss = float(optimizer.step(objective))  # the loss before these steps
        steps = optimizer.state[memory]["n_iter"]
        # the loss of rows that match exactly is zero up to rounding, and may be negative for ever
        if steps >= iterations or loss <= 0 or not loss <= (1 - STALL) * before:
            return memory.detach().cpu().numpy(), steps
        before = loss


def _batch_descent(
    real: Features, start: np.ndarray, kernel: Kernel, rng: np.random.Generator, device: torch.device, iterations: int
) -> tuple[np.ndarray, int]:
    """Gradient descent with momentum, the cross term of each step from a fresh batch of real rows, until it stalls.

    The step b/(a + w) and momentum 0.5 suit any units: the curvature in a row is about (a + w)/b.
    """
    yardstick = Yardstick(kernel, real, rng, device)
    memory = torch.from_numpy(start).to(device)
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
            if not loss <= (1 - STALL) * before:
                break
            before = loss
    learned: np.ndarray = memory.cpu().numpy()
    return learned, step


@dataclass(frozen=True)
class KernelMatching:
    """Builds a memory by exact matching under a kernel; see the module.

    The memory of a class that has ``earlier`` rows is matched to these and the new ones together, each with the weight
    of the real rows it stands for. K is homogeneous in each argument, K(t x, z) = t K(x, z): a row that stands for t
    rows is the row t x.
    """

    budget: int
    kernel: KernelName = "ntk"
    initial: Initial = "mixture"
    hidden: int = 256
    hops: int = 2
    iterations: int = ITERATIONS
    device: torch.device = CPU
    earlier: Mapping[int, Earlier] = field(default_factory=dict)

    def build(
        self, observation: Observation, columns: LabelColumns, rng: np.random.Generator, tracker: Tracker
    ) -> Memory:
        propagated = observation.graph.propagate(self.hops)
        width = propagated.shape[1]
        ntk = Kernel.ntk(width, self.hidden)
        kernel = ntk if self.kernel == "ntk" else Kernel.arc_cosine()

        def learn(column: int, own_rng: np.random.Generator) -> tuple[sp.csr_array, float, int]:
            rows = propagated[observation.train[observation.labels == column]]
            stand_for = None
            if column in self.earlier:
                stand_for = self.earlier[column].weights(more=rows.shape[0])
                rows = stack([self.earlier[column].rows, rows])
            used = used_columns(rows)
            real = rows[:, used]
            weights = initial_weights(self.initial, real.shape[0], self.budget, own_rng, stand_for)
            if stand_for is not None:
                real, weights = weighted_rows(real, weights, stand_for)
            matched = match(real, weights, kernel, own_rng, self.device, iterations=self.iterations)
            loss = relative_loss(ntk, real, matched.rows, own_rng)
            step()
            return widen(matched.rows, used, width), loss, matched.steps

        classes = observation.classes
        with tracker.phase("memory", len(classes)) as step:
            parts, losses, steps = zip(*_one_thread_each(learn, classes, rng.spawn(len(classes))), strict=True)
        labels = np.repeat(classes, [part.shape[0] for part in parts])
        report: dict[str, list[float]] = {"relative_loss": list(losses), "steps": list(steps)}
        return Memory.of_rows(observation.index, smaller(sp.vstack(parts)), labels, report)


def _one_thread_each(work: Callable[..., Result], *arguments: Iterable[Any]) -> list[Result]:
    """Maps over classes with one thread each: matrices are small, so that threads inside a product only wait."""
    threads = torch.get_num_threads()
    with threadpool_limits(1), ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        return list(pool.map(work, *arguments))
