"""Cross-entropy over groups of rows: plain, class-balanced, and debiased by logit adjustment.

A loss is a sum over *groups* (the current data, the memory of each task) of a mean over the group's rows.
Logits come already restricted to the columns a row may use; other columns are -inf or cut off.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional


class Loss(Protocol):
    """``pooled``: in class-incremental learning all rows form one group instead of one group a task."""

    @property
    def pooled(self) -> bool: ...

    def __call__(self, logits: Tensor, labels: Tensor, groups: Tensor, counts: Tensor) -> Tensor:
        """Loss of rows with ``labels`` in ``groups``; ``counts`` is the number of training rows of each column."""
        ...


@dataclass(frozen=True)
class Plain:
    """Sum over groups of the mean cross-entropy.

    >>> Plain()(torch.zeros(3, 2), torch.tensor([0, 1, 1]), torch.tensor([0, 0, 1]), torch.ones(2)).item()
    1.3862943649291992
    """

    pooled: bool = False

    def __call__(self, logits: Tensor, labels: Tensor, groups: Tensor, counts: Tensor) -> Tensor:
        sizes = torch.bincount(groups)
        return weighted(logits, labels, 1 / sizes[groups])


@dataclass(frozen=True)
class Balanced:
    """Sum over groups of the mean over the classes present of the per-class mean cross-entropy."""

    pooled: bool = True

    def __call__(self, logits: Tensor, labels: Tensor, groups: Tensor, counts: Tensor) -> Tensor:
        return weighted(logits, labels, self.weights(labels, groups, logits.shape[1]))

    def weights(self, labels: Tensor, groups: Tensor, width: int) -> Tensor:
        """Weight of each row: they add up to one over a group, shared evenly by the classes present in it."""
        cells = groups * width + labels
        sizes = torch.bincount(cells, minlength=(int(groups.max()) + 1) * width)
        classes_present = (sizes.view(-1, width) > 0).sum(dim=1)
        return 1 / (sizes[cells] * classes_present[groups])


@dataclass(frozen=True)
class Debiased:
    """DeLoMe's calibrated loss: the logit adjustment ``a_c = log(π_c^τ)`` is added to every row, then `Plain`.

    π_c is the share of class c in current training rows and memory together (Menon et al., 2021; Eq. 5–7 of the
    DeLoMe paper). Predictions use unadjusted logits.
    """

    tau: float = 1.0
    pooled: bool = False

    def adjustment(self, counts: Tensor) -> Tensor:
        """The vector a.

        >>> Debiased().adjustment(torch.tensor([2, 2, 6, 10])).tolist()
        [-2.3025851249694824, -2.3025851249694824, -1.2039728164672852, -0.6931471824645996]
        """
        share = counts / counts.sum()
        return torch.log(share**self.tau + 1e-12)

    def __call__(self, logits: Tensor, labels: Tensor, groups: Tensor, counts: Tensor) -> Tensor:
        return Plain()(logits + self.adjustment(counts), labels, groups, counts)


def weighted(logits: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
    """Sum of the rows' cross-entropies, each with its weight."""
    return (functional.cross_entropy(logits, labels, reduction="none") * weights).sum()
