"""Which column a class has, and which columns a row may use: the one place where CIL and TIL differ."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from delome.errors import StateError

Setting = Literal["cil", "til"]
Label: TypeAlias = int | str


class LabelColumns:
    """Columns of the classes seen so far, and of each task.

    Class-incremental (``cil``): every row competes over all classes seen. Task-incremental (``til``): the task of a
    row is known and only that task's columns count.

    >>> columns = LabelColumns("til", [(0, 1), (2, 3)])
    >>> columns.restrict(torch.zeros(1, 6), torch.tensor([1])).tolist()
    [[-inf, -inf, 0.0, 0.0]]
    """

    def __init__(self, setting: Setting, tasks: list[tuple[int, ...]]) -> None:
        self.setting, self.tasks = setting, tasks
        self.seen = 1 + max((column for task in tasks for column in task), default=-1)

    @cached_property
    def _allowed(self) -> Tensor:
        """Tasks × columns; only made if it is needed, because it grows with the square of the tasks."""
        table = torch.zeros(len(self.tasks), self.seen, dtype=torch.bool)
        rows = np.repeat(np.arange(len(self.tasks)), [len(columns) for columns in self.tasks])
        columns = torch.tensor([column for task in self.tasks for column in task], dtype=torch.long)
        table[torch.from_numpy(rows), columns] = True
        return table

    def allowed(self, task: int) -> tuple[int, ...]:
        """Columns that a row of a task may use."""
        return tuple(range(self.seen)) if self.setting == "cil" else self.tasks[task]

    def restrict(self, logits: Tensor, tasks: Tensor) -> Tensor:
        """Logits over the ``seen`` columns; columns a row may not use are -inf."""
        logits = logits[:, : self.seen]
        if self.setting == "cil":
            return logits
        return logits.masked_fill(~self._allowed.to(logits.device)[tasks], -torch.inf)

    def are_finite(self, logits: Tensor, tasks: Tensor) -> Tensor:
        """Whether a row's logits are finite in all columns that it may use."""
        finite = logits[:, : self.seen].isfinite()
        if self.setting == "til":
            finite |= ~self._allowed.to(logits.device)[tasks]
        return finite.all(dim=1)


@dataclass(frozen=True)
class KnownClasses:
    """The user's label of each class column, whole numbers or text, and the names of those numbers that have one.

    >>> known = KnownClasses().extended([100, 7]).extended([3, 7, 9])
    >>> known.labels, known.columns_of(np.array([7, 3, 7])).tolist()
    ((100, 7, 3, 9), [1, 2, 1])
    """

    labels: tuple[Label, ...] = ()
    names: Mapping[Label, str] = field(default_factory=dict)

    def extended(self, labels: Iterable[Label], names: Sequence[str] | None = None) -> KnownClasses:
        """Gives the next columns to labels that have none; ``names`` are a graph's names of the labels 0, 1, …"""
        known = tuple(dict.fromkeys([*self.labels, *labels]))
        if len({type(label) for label in known}) > 1:
            raise StateError("labels were whole numbers in some graphs and text in others: give one kind in all graphs")
        named: dict[Label, str] = {}
        if names is not None:
            named = {label: names[label] for label in known if isinstance(label, int) and label < len(names)}
        for label, name in named.items():
            if (before := self.names.get(label, name)) != name:
                raise StateError(
                    f"class {label} has been called '{before}' so far, but this graph calls it '{name}': "
                    "give each class one label and one name in all graphs"
                )
        return KnownClasses(known, {**self.names, **named})

    def columns_of(self, labels: np.ndarray) -> np.ndarray:
        """Columns of known labels."""
        return columns_of(self.labels, labels)

    def labels_of(self, columns: np.ndarray) -> np.ndarray:
        """The user's labels of columns."""
        labels: np.ndarray = np.array(self.labels)[columns]
        return labels


def columns_of(classes: Sequence[Label], labels: np.ndarray) -> np.ndarray:
    """Position in ``classes`` of each label, all of which occur there.

    >>> columns_of([30, 7], np.array([7, 7, 30])).tolist()
    [1, 1, 0]
    """
    by_label = np.argsort(classes)
    columns: np.ndarray = by_label[np.searchsorted(classes, labels, sorter=by_label)]
    return columns
