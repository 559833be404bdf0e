"""Prototypes: directions that embeddings are matched to, with new ones wherever an embedding has no match."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from delome.graph.lengths import lengths_of

MOMENTUM = 0.9
WEIGHT_DECAY = 1e-4
SHORTEST = 1e-12
COSINES_AT_ONCE = 2**18
"""Entries of a matrix of cosines that is made at once: few enough to stay in a processor's cache."""


def normalise(vectors: Tensor) -> Tensor:
    """Vectors of length 1 along the last dimension; the zero vector stays zero, with a finite gradient.

    >>> normalise(torch.tensor([[3.0, 4.0], [0.0, 0.0]])).tolist()
    [[0.6000000238418579, 0.800000011920929], [0.0, 0.0]]
    """
    lengths = lengths_of(vectors)
    return vectors / torch.where(lengths <= SHORTEST, 1, lengths)


class Trained:
    """A tensor and the momentum of its steps: SGD with Nesterov momentum and weight decay.

    Every tensor has its own momentum, so one that takes no step keeps its exact value.
    """

    def __init__(self, value: Tensor, momentum: Tensor | None = None) -> None:
        self.value = value.requires_grad_()
        self.momentum = torch.zeros_like(value, requires_grad=False) if momentum is None else momentum

    @torch.no_grad()
    def step(self, gradient: Tensor, lr: float, rows: Tensor | None = None) -> None:
        """One step, of all rows or of some."""
        value, momentum = self.value, self.momentum
        if rows is not None:
            value, momentum, gradient = value[rows], momentum[rows], gradient[rows]
        gradient = gradient.add(value, alpha=WEIGHT_DECAY)
        momentum.mul_(MOMENTUM).add_(gradient)
        value.sub_(gradient.add_(momentum, alpha=MOMENTUM), alpha=lr)
        if rows is not None:
            self.value[rows], self.momentum[rows] = value, momentum

    @torch.no_grad()
    def grow(self, more: Tensor, dim: int = 0) -> None:
        """Appends entries that have no momentum yet."""
        self.value = torch.cat([self.value, more], dim).requires_grad_()
        self.momentum = torch.cat([self.momentum, torch.zeros_like(more)], dim)


class PrototypeTable:
    """Prototypes of one level, as rows of any length: only their directions count.

    >>> table = PrototypeTable(Trained(torch.tensor([[1.0, 0.0]])))
    >>> table.establish([torch.tensor([[0.0, 1.0], [0.6, 0.8], [0.0, 1.0]])], threshold=0.2).tolist()
    [1, 1, 1]
    >>> table[torch.tensor([1])].tolist()
    [[0.0, 1.0]]
    """

    def __init__(self, rows: Trained) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows.value)

    def __getitem__(self, index: Tensor) -> Tensor:
        """Prototypes by number, at length 1; gradients reach the rows that were asked for."""
        return normalise(self.rows.value.index_select(0, index))

    @torch.no_grad()
    def match(self, queries: Tensor, first: int = 0) -> tuple[Tensor, Tensor]:
        """Cosine and number of the nearest prototype of each unit query, among those from number ``first`` on."""
        prototypes = normalise(self.rows.value[first:]).T.contiguous()
        parts = queries.split(max(1, COSINES_AT_ONCE // prototypes.shape[1]))
        cosines, numbers = zip(*(_largest(part @ prototypes) for part in parts), strict=True)
        # rounding must not make an opposite vector more than opposite
        return torch.cat(cosines).clamp_(-1, 1), torch.cat(numbers) + first

    @torch.no_grad()
    def establish(self, groups: Sequence[Tensor], threshold: float) -> Tensor:
        """Number of the nearest prototype of each unit query, after making those that are missing.

        A query whose cosine with every prototype is below ``1 - threshold`` becomes a prototype itself, unless a later
        query of its group is closer to it than that. Groups are taken one after the other, so that any two prototypes
        made here are at least that far apart.
        """
        queries = torch.cat(list(groups))
        known = len(self)
        cosines, nearest = self.match(queries)
        # a zero vector has no direction and would stay unmatched for ever
        far = (cosines < 1 - threshold) & (queries.norm(dim=1) > SHORTEST)
        sizes = [len(group) for group in groups]
        for group, is_far in zip(groups, far.split(sizes), strict=True):
            candidates = group[is_far].detach()
            if len(candidates) and len(self) > known:
                candidates = candidates[self.match(candidates, known)[0] < 1 - threshold]
            if len(candidates):
                self.rows.grow(candidates[_nearest_later(candidates) < 1 - threshold])
        if len(self) > known:
            new_cosines, new_nearest = self.match(queries, known)
            nearest = torch.where(new_cosines > cosines, new_nearest, nearest)
        return nearest

    def step(self, gradient: Tensor, lr: float, matched: Tensor) -> None:
        """One step of the prototypes that were matched; the others keep their exact values."""
        self.rows.step(gradient, lr, matched.unique())


def _largest(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Largest entry of each row and its column, the first of several."""
    if matrix.device.type != "cpu":
        values, columns = matrix.max(dim=1)
        return values, columns
    # numpy's arg-max uses vector instructions, torch's does not: a tenth of the time
    columns = torch.from_numpy(matrix.numpy().argmax(axis=1))
    return matrix.gather(1, columns[:, None])[:, 0], columns


def _nearest_later(vectors: Tensor) -> Tensor:
    """For each unit vector its largest cosine with a vector further down, -1 for the last."""
    count = len(vectors)
    size = max(1, COSINES_AT_ONCE // count)
    nearest = torch.full((count,), -1.0, dtype=vectors.dtype, device=vectors.device)
    for start in range(0, count - 1, size):
        block = vectors[start : start + size]
        cosines = block @ vectors[start:].T
        earlier = torch.ones_like(cosines, dtype=torch.bool).tril_()
        nearest[start : start + size] = cosines.masked_fill_(earlier, -1).amax(dim=1)
    return nearest
