"""What a learner carries from task to task, and what of it is kept for old tasks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor


@dataclass
class State:
    """Everything a learner carries from task to task: named tensors and plain JSON values."""

    tensors: dict[str, Tensor] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Keeps:
    """What a method keeps for old tasks, as formulas of budget b, classes seen C, dense features F, tasks T, network
    parameters p, nodes N and edges E of all task graphs, random features D, prototypes P of dimension d, and
    extractors A."""

    rows: str = "0"
    floats: str = "0"
    bytes: str = "0"


KEEPS_ROWS = Keeps("b·C", "b·C·F", "4·b·C·F + 16·b·C")
"""Budgeted rows with their labels and positions."""


@dataclass(frozen=True)
class Storage:
    """What a learner keeps for the sake of old tasks, besides the network itself."""

    rows: int = 0
    floats: int = 0
    bytes: int = 0
