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
class Storage:
    """What a learner keeps for the sake of old tasks, besides the network itself."""

    rows: int = 0
    floats: int = 0
    bytes: int = 0
