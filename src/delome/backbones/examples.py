"""Examples: labelled rows that a network can read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from delome.backbones.backbone import Inputs, Network
from delome.backbones.sampling import SampledNodes, join


@dataclass(frozen=True)
class Examples:
    """Rows with class columns as labels, and the task each row belongs to."""

    inputs: Inputs
    labels: Tensor
    tasks: Tensor

    @classmethod
    def join(cls, network: Network, parts: Sequence[Examples]) -> Examples:
        """All rows below each other."""
        return cls(
            join(network, [part.inputs for part in parts]),
            torch.cat([part.labels for part in parts]),
            torch.cat([part.tasks for part in parts]),
        )

    def __len__(self) -> int:
        return len(self.labels)

    def read(self, rng: np.random.Generator) -> Examples:
        """The same for a network: sampled neighbourhoods are drawn now."""
        return replace(self, inputs=self.inputs.draw(rng)) if isinstance(self.inputs, SampledNodes) else self

    def select(self, index: np.ndarray) -> Examples:
        positions = torch.from_numpy(index).to(self.labels.device)
        return Examples(self.inputs.select(index), self.labels[positions], self.tasks[positions])
