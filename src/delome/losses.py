"""Cross-entropy over groups of rows: plain, class-balanced, debiased by logit adjustment, and mixed by memory size.

A loss is a sum over *groups* (the current data, the memory of each task) of a mean over the group's rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Annotated

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
    """

    logits: Tensor
    labels: Tensor
    tasks: Tensor
    counts: Tensor
    one_group: bool = True
    replayed: int = 0
    stored: int = 0

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
        groups = rows.groups(self.pooled)
        sizes = torch.bincount(groups)
        return weighted(rows.logits, rows.labels, 1 / sizes[groups])


@LOSSES.register("balanced")
class Balanced(Loss):
    """Sum over groups of the mean over the classes present of the per-class mean cross-entropy."""

    pooled: Pooled = True

    def __call__(self, rows: ScoredRows) -> Tensor:
        weights = balanced_weights(rows.labels, rows.groups(self.pooled), rows.logits.shape[1])
        return weighted(rows.logits, rows.labels, weights)


@LOSSES.register("debiased")
class Debiased(Loss):
    """DeLoMe's calibrated loss: the logit adjustment ``a_c = log(π_c^τ)`` is added to every row, then `Plain`.

    π_c is the share of class c in current training rows and memory together (Menon et al., 2021; Eq. 5–7 of the
    DeLoMe paper). Predictions use unadjusted logits.
    """

    tau: Annotated[float, Param("strength τ of the logit adjustment", at_least=0)] = 1.0
    pooled: Pooled = False

    def adjustment(self, counts: Tensor) -> Tensor:
        """The vector a.

        >>> Debiased().adjustment(torch.tensor([2, 2, 6, 10])).tolist()
        [-2.3025851249694824, -2.3025851249694824, -1.2039728164672852, -0.6931471824645996]
        """
        share = counts / counts.sum()
        return torch.log(share**self.tau + 1e-12)

    def __call__(self, rows: ScoredRows) -> Tensor:
        adjusted = replace(rows, logits=rows.logits + self.adjustment(rows.counts))
        return Plain(pooled=self.pooled)(adjusted)


@LOSSES.register("mixed")
class Mixed(Loss):
    """ERGNN's ``L = β L_cur + (1 - β) L_mem`` with β = B / (B + n), for B stored and n current rows.

    Each of the losses is balanced. Class-incremental: L_mem is one loss over all memory rows. Task-incremental: one old
    task after the other is mixed in, L ← β L + (1 - β) L_k.
    """

    def __call__(self, rows: ScoredRows) -> Tensor:
        if not rows.replayed:
            return Balanced()(rows)
        current = len(rows.labels) - rows.replayed
        groups = torch.zeros_like(rows.tasks)
        groups[current:] = 1 if rows.one_group else 1 + rows.tasks[current:]
        beta = rows.stored / (rows.stored + current)
        shares = mixing_shares(beta, int(groups.max())).to(rows.logits.device)
        weights = balanced_weights(rows.labels, groups, rows.logits.shape[1]) * shares[groups]
        return weighted(rows.logits, rows.labels, weights)


def mixing_shares(beta: float, memories: int) -> Tensor:
    """Weights of the current loss and of each memory's after L ← β L + (1 - β) L_k for every memory k in turn.

    >>> [round(share, 2) for share in mixing_shares(0.2, 2).tolist()]
    [0.04, 0.16, 0.8]
    """
    powers = torch.tensor([beta**k for k in range(memories, -1, -1)])
    return torch.cat([powers[:1], (1 - beta) * powers[1:]])


def balanced_weights(labels: Tensor, groups: Tensor, width: int) -> Tensor:
    """Weight of each row: they add up to one over a group, shared evenly by the classes present in it."""
    cells = groups * width + labels
    sizes = torch.bincount(cells, minlength=(int(groups.max()) + 1) * width)
    classes_present = (sizes.view(-1, width) > 0).sum(dim=1)
    return 1 / (sizes[cells] * classes_present[groups])


def weighted(logits: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
    """Sum of the rows' cross-entropies, each with its weight."""
    return (functional.cross_entropy(logits, labels, reduction="none") * weights).sum()
