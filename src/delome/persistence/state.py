"""State: what a learner carries from task to task."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from delome.errors import StateError

MEMORY_OF_A_TASK = re.compile(r"memory\.(\d+)\.")
"""How the names of tensors begin that are memories of a task, and never change."""


@dataclass
class State:
    """Everything a learner carries from task to task: named tensors and plain JSON values."""

    tensors: dict[str, Tensor] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)

    def tensor(self, name: str, shape: Sequence[int | None], dtype: torch.dtype = torch.float32) -> Tensor:
        """Tensor by name, refused unless it has this type and shape; ``None`` stands for any size."""
        if name not in self.tensors:
            raise StateError(f"the state does not fit the learner: it has no '{name}'")
        found = self.tensors[name]
        sizes = [*found.shape, *[0] * len(shape)]
        wanted = tuple(sizes[place] if size is None else size for place, size in enumerate(shape))
        if tuple(found.shape) != wanted or found.dtype != dtype:
            raise StateError(
                f"the state does not fit the learner: '{name}' is {found.dtype} of shape {tuple(found.shape)}, "
                f"not {dtype} of shape {wanted}"
            )
        if not _is_finite(found):
            raise StateError(f"the state does not fit the learner: '{name}' holds numbers that are not finite")
        # what was made in inference mode cannot take part in training
        return found.clone() if found.is_inference() else found

    def not_finite(self, since: State | None = None) -> list[str]:
        """Names of the tensors and values that hold NaN or infinite numbers; the memories of an earlier state are known
        not to."""
        known = {} if since is None else since.tensors
        tensors = [
            name
            for name, tensor in self.tensors.items()
            if not (known.get(name) is tensor and MEMORY_OF_A_TASK.match(name)) and not _is_finite(tensor)
        ]
        return tensors + [name for name, value in self.values.items() if not _is_writable(value)]

    def whole_number(self, name: str) -> int:
        """Value by name, refused unless it is a whole number from 0 on."""
        return whole_numbers([self.value(name)], name)[0]

    def value(self, name: str) -> Any:
        """Value by name, refused if it is missing."""
        if name not in self.values:
            raise StateError(f"the state does not fit the learner: it has no '{name}'")
        return self.values[name]


def whole_numbers(values: Any, name: str) -> list[int]:
    """The values, refused unless they are a list of whole numbers from 0 on that fit in 64 bits."""
    if not isinstance(values, list) or not all(type(value) is int and 0 <= value < 2**63 for value in values):
        raise StateError(f"the state does not fit the learner: '{name}' must hold whole numbers, not {values!r:.40}")
    return list(values)


def _is_finite(tensor: Tensor) -> bool:
    return not tensor.is_floating_point() or bool(tensor.isfinite().all())


def _is_writable(value: Any) -> bool:
    """Whether a plain value holds no NaN or infinity, which JSON has no words for."""
    try:
        json.dumps(value, allow_nan=False, default=str, skipkeys=True)
    except ValueError:
        return False
    return True
