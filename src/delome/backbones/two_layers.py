"""Two layers without bias: what the networks of SGC, GCN and GAT share."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import torch
from torch import nn

from delome.backbones.backbone import Backbone, Network, widened
from delome.parameters import Param
from delome.randomness import uniform


class TwoLayers(Backbone):
    """A backbone with one hidden layer."""

    hidden: Annotated[int, Param("hidden units", at_least=1)] = 256


class TwoLayerNetwork(Network):
    """``first`` maps features to hidden units, ``second`` hidden units to class columns; uniform in ±1/√fan_in."""

    def __init__(
        self, backbone: TwoLayers, features: int, classes: int, rng: np.random.Generator, device: torch.device
    ) -> None:
        super().__init__(backbone, device)
        hidden = backbone.hidden
        self.first = nn.Parameter(uniform(rng, (features, hidden), features**-0.5).to(device))
        self.second = nn.Parameter(uniform(rng, (hidden, classes), hidden**-0.5).to(device))

    def grow(self, classes: int, rng: np.random.Generator) -> None:
        hidden, known = self.second.shape
        self.second = widened(self.second, uniform(rng, (hidden, classes - known), hidden**-0.5))
