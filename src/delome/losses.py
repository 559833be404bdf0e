"""Cross-entropy over groups of rows: plain, class-balanced, debiased by logit adjustment, and mixed by memory size.

A loss is a sum over *groups* (the current data, the memory of each task) of a mean over the group's rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import Tensor
from torch.nn import functional

from delome.parameters import Component, Param
from delome.registry import Registry

LOSSES: Registry[type[Loss]] = Registry("loss", "losses", lambda: Loss)


@dataclass(frozen=True)
class ScoredRows:
    """Rows that a loss is taken of: those of a batch, and below them the last ``replayed`` from memories.

    ``logits`` are restricted to the columns a row may use; others are -inf or cut off. ``one_group`` says that all
    classes compete (class-incremental), so that rows of several ``tasks`` can be one group. ``counts`` is the number of
    training and memory rows of each column, ``stored`` that of all memory rows, those of the current task included.
    Rows that were drawn from more of them have ``weights``: how many rows each stands for.
    """

    logits: Tensor
    labels: Tensor
    tasks: Tensor
    counts: Tensor
    one_group: bool = True
    replayed: int = 0
    stored: int = 0
    weights: Tensor | None = None

    @property
    def stands_for(self) -> Tensor:
        """How many rows each row stands for."""
        return torch.ones_like(self.labels, dtype=self.logits.dtype) if self.weights is None else self.weights

    def groups(self, pooled: bool) -> Tensor:
        """Number of each row's group: its task, or 0 if all rows are ``pooled`` and may be."""
        return torch.zeros_like(self.tasks) if pooled and self.one_group else self.tasks


class Loss(Component, ABC):
    """Turns scored rows into the number that training makes small."""

    @abstractmethod
    def __call__(self, rows: ScoredRows) -> Tensor: ...


Pooled = Annotated[bool, Param("class-incremental: all rows are one group, instead of one group a task")]


@LOSSES.register("plain")
class Plain(Loss):
    """Sum over groups of the mean cross-entropy.

    >>> tasks = torch.tensor([0, 0, 1])
    >>> Plain()(ScoredRows(torch.zeros(3, 2), torch.tensor([0, 1, 1]), tasks, torch.ones(2))).item()
    1.3862943649291992
    """

    pooled: Pooled = False

    def __call__(self, rows: ScoredRows) -> Tensor:
        return weighted(rows.logits, rows.labels, plain_weights(rows, rows.groups(self.pooled)))


@LOSSES.register("balanced")
class Balanced(Loss):
    """Sum over groups of the mean over the classes present of the per-class mean cross-entropy."""

    pooled: Pooled = True

    def __call__(self, rows: ScoredRows) -> Tensor:
        weights = balanced_weights(rows, rows.groups(self.pooled))
        return weighted(rows.logits, rows.labels, weights)


@LOSSES.register("debiased")
class Debiased(Loss):
    """DeLoMe's calibrated loss: the logit adjustment ``a_c = log(π_c^τ)`` is added to every row, then `Plain`.

    π_c is the share of class c in current training rows and memory together (Menon et al., 2021; Eq. 5–7 of the
    DeLoMe paper). Predictions use unadjusted logits.

    `Plain` gives a task the same weight, however few rows its memory has, so that the share of *rows* corrects for more
    than there is to correct: the fewer rows are remembered, the more the newest classes are held back until a later
    task. With ``prior="weights"`` π_c is the share of class c in the weights of this loss.
    """

    tau: Annotated[float, Param("strength τ of the logit adjustment", at_least=0)] = 1.0
    prior: Annotated[
        Literal["rows", "weights"], Param("share of a class: in rows, as in the paper, or in the weights of the loss")
    ] = "rows"
    pooled: Pooled = False

    def adjustment(self, counts: Tensor) -> Tensor:
        """The vector a.

        >>> Debiased().adjustment(torch.tensor([2, 2, 6, 10])).tolist()
        [-2.3025851249694824, -2.3025851249694824, -1.2039728164672852, -0.6931471824645996]
        """
        share = counts / counts.sum()
        return torch.log(share**self.tau + 1e-12)

    def __call__(self, rows: ScoredRows) -> Tensor:
        weights = plain_weights(rows, rows.groups(self.pooled))
        counts = rows.counts if self.prior == "rows" else totals(weights, rows.labels, rows.logits.shape[1])
        return weighted(rows.logits + self.adjustment(counts), rows.labels, weights)


@LOSSES.register("mixed")
class Mixed(Loss):
    """ERGNN's ``L = β L_cur + (1 - β) L_mem`` with β = B / (B + n), for B stored and n current rows.

    Each of the losses is balanced. Class-incremental: L_mem is one loss over all memory rows. Task-incremental: one old
    task after the other is mixed in, L ← β L + (1 - β) L_k.
    """

    def __call__(self, rows: ScoredRows) -> Tensor:
        current = len(rows.labels) - rows.replayed
        groups = torch.zeros_like(rows.tasks)
        groups[current:] = 1 if rows.one_group else 1 + rows.tasks[current:]
        beta = rows.stored / (rows.stored + float(rows.stands_for[:current].sum()))
        shares = mixing_shares(beta, int(groups.max())).to(rows.logits.device)
        weights = balanced_weights(rows, groups) * shares[groups]
        return weighted(rows.logits, rows.labels, weights)


def mixing_shares(beta: float, memories: int) -> Tensor:
    """Weights of the current loss and of each memory's after L ← β L + (1 - β) L_k for every memory k in turn.

    >>> [round(share, 2) for share in mixing_shares(0.2, 2).tolist()]
    [0.04, 0.16, 0.8]
    """
    powers = torch.tensor([beta**k for k in range(memories, -1, -1)])
    return torch.cat([powers[:1], (1 - beta) * powers[1:]])


def totals(values: Tensor, places: Tensor, size: int) -> Tensor:
    """Sum of the values of each place."""
    return torch.zeros(size, dtype=values.dtype, device=values.device).index_add_(0, places, values)


def plain_weights(rows: ScoredRows, groups: Tensor) -> Tensor:
    """Weight of each row: they add up to one over a group, shared evenly by its rows."""
    stands_for = rows.stands_for
    return stands_for / totals(stands_for, groups, int(groups.max()) + 1)[groups]


def balanced_weights(rows: ScoredRows, groups: Tensor) -> Tensor:
    """Weight of each row: they add up to one over a group, shared evenly by the classes present in it."""
    width, stands_for = rows.logits.shape[1], rows.stands_for
    cells = groups * width + rows.labels
    sizes = totals(stands_for, cells, (int(groups.max()) + 1) * width)
    classes_present = (sizes.view(-1, width) > 0).sum(dim=1)
    return stands_for / (sizes[cells] * classes_present[groups])


def weighted(logits: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
    """Sum of the rows' cross-entropies, each with its weight."""
    return (functional.cross_entropy(logits, labels, reduction="none") * weights).sum()
