"""Which label columns a row may use: the one place where CIL and TIL differ."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

Setting = Literal["cil", "til"]


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
        self._allowed = torch.zeros(len(tasks), self.seen, dtype=torch.bool)
        for task, columns in enumerate(tasks):
            self._allowed[task, list(columns)] = True

    def restrict(self, logits: Tensor, tasks: Tensor) -> Tensor:
        """Logits over the ``seen`` columns; columns a row may not use are -inf."""
        logits = logits[:, : self.seen]
        if self.setting == "cil":
            return logits
        return logits.masked_fill(~self._allowed.to(logits.device)[tasks], -torch.inf)
