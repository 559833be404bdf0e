"""Adam whose state can be taken out and put back: for what is trained beside a network that lasts."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from delome.persistence.state import State


class ResumableAdam:
    """Minimises losses in named tensors; interrupted after any step, it goes on to the same end."""

    def __init__(self, named: Mapping[str, Tensor], lr: float, weight_decay: float) -> None:
        self.named = {name: tensor.requires_grad_() for name, tensor in named.items()}
        self._adam = torch.optim.Adam(list(self.named.values()), lr=lr, weight_decay=weight_decay)

    def step(self, loss: Tensor) -> None:
        """One step down a loss."""
        self._adam.zero_grad()
        loss.backward()
        self._adam.step()

    def save(self) -> State:
        """Copies of all that later steps depend on."""
        state = State()
        for name, tensor in self.named.items():
            state.tensors[name] = tensor.detach().clone()
            for moment, value in self._adam.state[tensor].items():
                state.tensors[f"{name}.{moment}"] = value.detach().clone()
        return state

    @torch.no_grad()
    def load(self, state: State) -> None:
        """Takes back what was saved."""
        for name, tensor in self.named.items():
            tensor.copy_(state.tensor(name, tuple(tensor.shape)))
            shapes = {"step": (), "exp_avg": tuple(tensor.shape), "exp_avg_sq": tuple(tensor.shape)}
            self._adam.state[tensor] = {
                moment: state.tensor(f"{name}.{moment}", shape).to(
                    "cpu" if moment == "step" else tensor.device, copy=True
                )
                for moment, shape in shapes.items()
            }
