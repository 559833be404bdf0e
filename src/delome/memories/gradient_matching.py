"""Gradient matching with sampled networks: the memory learning of the DeLoMe paper (its Algorithm 1).

Rows X̂ are learned so that, for many random networks, the loss gradient on them equals the gradient on the real
rows of their class. The gradients of the two-layer network are written in closed form, so that no second-order
graph is built, and all classes of a task are computed as one batch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from delome.memories.builder import MEMORIES, Context, MemoryBuilder
from delome.memories.descent import descend
from delome.memories.initial import ClassRows, Initial
from delome.memories.kernel import Kernel
from delome.memories.memory import Memory
from delome.memories.mmd import relative_loss
from delome.parameters import Param
from delome.randomness import uniform
from delome.streams.tasks import Observation

MatchLoss = Literal["ce", "nll"]

REAL_BATCH = 2000
"""Most real rows of a class that one random network is shown."""


@dataclass(frozen=True)
class Stacked:
    """Rows of several classes, one class below the other."""

    rows: Tensor
    sizes: list[int]

    @classmethod
    def of(cls, parts: list[Tensor], device: torch.device) -> Stacked:
        return cls(torch.cat(parts).to(device), [len(part) for part in parts])


def class_gradients(
    batch: Stacked, first: Tensor, second: Tensor, targets: Tensor, loss: MatchLoss
) -> tuple[Tensor, Tensor]:
    """Gradients of each class's mean loss with respect to ``first`` (F × H) and ``second`` (H × C).

    With h = relu(W1 x), m = 1[W1 x > 0] and the residual r = softmax(W2 h) - onehot (``ce``) or r = -onehot (``nll``,
    the loss -z_c on raw logits): ∂W2 = mean r hᵀ and ∂W1 = mean ((W2ᵀ r) ⊙ m) xᵀ.
    """
    sizes = torch.tensor(batch.sizes, device=targets.device)
    before = batch.rows @ first
    hidden = before.relu()
    residual = -functional.one_hot(targets.repeat_interleave(sizes), second.shape[1]).to(first.dtype)
    if loss == "ce":
        residual = (hidden @ second).softmax(dim=1) + residual
    residual = residual / sizes.repeat_interleave(sizes)[:, None]
    back = (residual @ second.T) * (before > 0)
    parts = [tensor.split(batch.sizes) for tensor in (batch.rows, back, hidden, residual)]
    by_first = torch.stack([rows.T @ slopes for rows, slopes in zip(parts[0], parts[1], strict=True)])
    by_second = torch.stack([units.T @ errors for units, errors in zip(parts[2], parts[3], strict=True)])
    return by_first, by_second


def gradient_distance(wanted: tuple[Tensor, Tensor], reached: tuple[Tensor, Tensor]) -> Tensor:
    """Squared distance of the concatenated gradients, for each class."""
    return (wanted[0] - reached[0]).square().sum(dim=(1, 2)) + (wanted[1] - reached[1]).square().sum(dim=(1, 2))


@MEMORIES.register("gradient-matching")
class GradientMatching(MemoryBuilder):
    """Matches the gradients of ``networks`` random SGC networks (E of the paper), one Adam step of ``lr`` for each.

    Feature columns that no node of the task uses are left out: their expected gradient is zero, so that the
    algorithm would only add noise there.
    """

    networks: Annotated[int, Param("random networks E", at_least=1)] = 800
    lr: Annotated[float, Param("Adam's step size of the memory rows", above=0)] = 1e-4
    match_loss: Annotated[MatchLoss, Param("loss whose gradients are matched: ce, or nll on raw logits")] = "ce"
    init: Annotated[Initial, Param("what memory rows start as")] = "raw"

    def build(self, observation: Observation, context: Context) -> Memory:
        rng, hidden, device = context.rng, context.hidden, context.device
        rows = ClassRows.of(observation, context.hops, self.init, self.budget, rng)
        classes = list(observation.classes)
        competing = classes if context.columns.setting == "til" else list(range(context.columns.seen))
        targets = torch.tensor([competing.index(column) for column in classes], device=device)

        def draw_network() -> tuple[Tensor, Tensor]:
            first = uniform(rng, (len(rows.columns), hidden), rows.width**-0.5)
            second = uniform(rng, (hidden, len(competing)), hidden**-0.5)
            return first.to(device), second.to(device)

        learned = self.match(rows.real, rows.start, targets, draw_network, context)
        kernel = Kernel.ntk(rows.width, hidden)
        losses = [relative_loss(kernel, a.numpy(), b.numpy(), rng) for a, b in zip(rows.real, learned, strict=True)]
        return rows.remember(observation, learned, {"relative_loss": losses})

    def match(
        self,
        real: list[Tensor],
        start: list[Tensor],
        targets: Tensor,
        draw_network: Callable[[], tuple[Tensor, Tensor]],
        context: Context,
    ) -> list[Tensor]:
        """Learned rows of each class, starting from ``start``."""
        device = targets.device
        memory = Stacked.of(start, device)
        memory.rows.requires_grad_()
        sizes = torch.tensor(memory.sizes, device=device)
        everything = Stacked.of(real, device) if max(map(len, real)) <= REAL_BATCH else None

        def draw() -> Callable[[], Tensor]:
            first, second = draw_network()
            with torch.no_grad():
                shown = everything or Stacked.of([_sample(part, context.rng) for part in real], device)
                wanted = class_gradients(shown, first, second, targets, self.match_loss)

            def distance() -> Tensor:
                reached = class_gradients(memory, first, second, targets, self.match_loss)
                return (sizes / sizes.max() * gradient_distance(wanted, reached)).sum()

            return distance

        descend(memory.rows, draw, self.lr, self.networks, context)
        return list(memory.rows.detach().cpu().split(memory.sizes))


def _sample(rows: Tensor, rng: np.random.Generator) -> Tensor:
    if len(rows) <= REAL_BATCH:
        return rows
    return rows[torch.from_numpy(rng.choice(len(rows), REAL_BATCH, replace=False))]
