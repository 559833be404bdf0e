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
    """Rows with class columns as labels, and the task each row belongs to.

    ``weights`` say for how many rows each of them stands, if some were drawn from more (see `Strata`).
    """

    inputs: Inputs
    labels: Tensor
    tasks: Tensor
    weights: Tensor | None = None

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
        weights = None if self.weights is None else self.weights[positions]
        return Examples(self.inputs.select(index), self.labels[positions], self.tasks[positions], weights)


class Strata:
    """Draws about ``size`` of some examples, from each class of each task in proportion, and at least one.

    A drawn row has the weight N / n if n of the N rows of its class and task are drawn: whatever is a sum over all rows
    has the weighted sum over drawn ones as its expectation.

    >>> rows = Examples(range(8), torch.tensor([0] * 6 + [1] * 2), torch.zeros(8, dtype=torch.int64))
    >>> strata = Strata(rows, 4)
    >>> strata.drawn.tolist(), strata.weights.tolist()
    ([3, 1], [2.0, 2.0])
    """

    def __init__(self, examples: Examples, size: int) -> None:
        pairs = torch.stack([examples.tasks, examples.labels]).cpu().numpy()
        _, stratum, sizes = np.unique(pairs, axis=1, return_inverse=True, return_counts=True)
        self.examples, self.size = examples, size
        self.drawn = np.minimum(np.maximum(1, sizes * size // len(examples)), sizes)
        self.weights = sizes / self.drawn
        self._stratum = stratum.ravel()
        # rows in the order of their strata: where each stratum begins, and the rank of each row in its own
        self._rank = np.arange(len(examples)) - np.repeat(np.cumsum(sizes) - sizes, sizes)

    def draw(self, rng: np.random.Generator) -> Examples:
        """Some of the examples, or all of them if there are no more than ``size``."""
        if len(self.examples) <= self.size:
            return self.examples
        order = np.lexsort((rng.random(len(self.examples)), self._stratum))
        chosen = order[self._rank < self.drawn[self._stratum[order]]]
        weights = torch.from_numpy(self.weights[self._stratum[chosen]].astype(np.float32))
        return replace(self.examples.select(chosen), weights=weights.to(self.examples.labels.device))
