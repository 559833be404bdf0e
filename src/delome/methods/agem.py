"""A-GEM: averaged gradient episodic memory."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from delome.backbones.examples import Examples
from delome.learning import METHODS
from delome.learning.replay import Replay, ReplayTraining
from delome.learning.training import check_finite
from delome.losses import Balanced
from delome.memories import PropagatedRows


def agreeing(gradient: Tensor, reference: Tensor) -> Tensor:
    """The gradient, without what disagrees with the reference: ``g - (gᵀr / rᵀr) r`` if gᵀr < 0.

    >>> agreeing(torch.tensor([1.0, 0.0]), torch.tensor([-1.0, 1.0])).tolist()
    [0.5, 0.5]
    """
    product = gradient @ reference
    if product >= 0:
        return gradient
    return gradient - product / (reference @ reference) * reference


@METHODS.register("agem")
class AGEM(Replay):
    """Each step's gradient is changed as little as possible so that the loss of remembered rows does not rise (Chaudhry
    et al., 2019): what disagrees with the gradient of that loss, all old tasks together, is taken out of it.

    Remembered are propagated rows of random training nodes, of which each step draws some.

    >>> from delome import TaskStream, load_graph
    >>> stream = TaskStream(load_graph("synthetic", nodes=400, classes=4))
    >>> learner = AGEM(budget=5, epochs=50, setting="til")
    >>> for task in stream:
    ...     learner.observe(task)
    >>> min(learner.evaluate(stream)) > 80
    True
    """

    memory = PropagatedRows()
    loss = Balanced()

    family = "gradient projection"
    citation = "Chaudhry et al., 2019"
    summary = "takes out of each step what would raise the loss of remembered rows"

    def replaying(self, *arguments: Any) -> ReplayTraining:
        return AGEMTraining(self, *arguments)


class AGEMTraining(ReplayTraining):
    """Minimises the loss of the current task; remembered rows only say which way not to go."""

    def objective(self, batch: Examples) -> Tensor:
        return self.loss(self.network(batch.inputs), batch, stored=self.stored)

    def adjust(self, epoch: int) -> None:
        if self.memories is None:
            return
        remembered, parameters = self.memories.draw(self._rng), list(self.network.parameters())
        loss = self.loss(self.network(remembered.inputs), remembered, replayed=len(remembered), stored=self.stored)
        slopes = torch.autograd.grad(loss, parameters, allow_unused=True, materialize_grads=True)
        own = [torch.zeros_like(each) if each.grad is None else each.grad for each in parameters]
        flat = torch.cat([gradient.flatten() for gradient in own])
        changed = agreeing(flat, torch.cat([slope.flatten() for slope in slopes]))
        if changed is flat:
            return
        check_finite(changed, "the projected gradient", self.observation.index, epoch)
        for parameter, part in zip(parameters, changed.split([each.numel() for each in parameters]), strict=True):
            parameter.grad = part.view_as(parameter).clone()
