"""Quadratic penalties around old optima: what EWC, MAS and their kin share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor

from delome.backbones.examples import Examples
from delome.learning.footprint import Footprint, FootprintFormula
from delome.learning.gradient import GradientLearner, padded
from delome.learning.isolation import isolated
from delome.learning.training import Schedule, TaskTraining
from delome.persistence.state import State
from delome.progress import Tracker
from delome.streams.tasks import Observation

IMPORTANCE_BATCH = 2000
"""Most training nodes whose mean gradient is squared, as in the benchmark: strengths are relative to it."""


class PenaltyLearner(GradientLearner):
    """Adds ``Σ_k Σ_i I_k,i (θ_i - θ*_k,i)²`` to the loss, for importances I_k and optima θ*_k of finished tasks.

    Up to a constant this is ``Σ_i U_i θ_i² - 2 V_i θ_i`` with U = Σ I_k and V = Σ I_k θ*_k: two tensors for each
    parameter, however many tasks there were.
    """

    family = "penalty"
    keeps = FootprintFormula("0", "2·p", "8·p")

    def forget(self) -> None:
        super().forget()
        self.importance: list[Tensor] = []
        self.anchor: list[Tensor] = []

    @abstractmethod
    def remember(self, task: PenaltyTraining) -> None:
        """Updates ``importance`` (U) and ``anchor`` (V) after a task."""

    def begin(self, observation: Observation, examples: Examples, tracker: Tracker) -> PenaltyTraining:
        return PenaltyTraining(self, observation, examples, tracker)

    def accumulate(self, importance: list[Tensor]) -> None:
        """Adds the importances I of one more task, whose optimum is where the network is now."""
        zeros = [torch.zeros_like(each) for each in importance]
        parameters = [parameter.detach() for parameter in self.network.parameters()]
        self.importance = [u + i for u, i in zip(self.importance or zeros, importance, strict=True)]
        self.anchor = [v + i * p for v, i, p in zip(self.anchor or zeros, importance, parameters, strict=True)]

    def grow(self, outputs: int) -> None:
        super().grow(outputs)
        if self.importance:
            # nothing that was learned depends on new columns
            parameters = list(self.network.parameters())
            self.importance = [padded(u, p) for u, p in zip(self.importance, parameters, strict=True)]
            self.anchor = [padded(v, p) for v, p in zip(self.anchor, parameters, strict=True)]

    def _named(self) -> dict[str, Tensor]:
        names = [name for name, _ in self.network.named_parameters()] if self.importance else []
        named = {f"importance.{name}": tensor for name, tensor in zip(names, self.importance, strict=True)}
        return named | {f"anchor.{name}": tensor for name, tensor in zip(names, self.anchor, strict=True)}

    def state(self) -> State:
        state = super().state()
        state.tensors |= {name: tensor.clone() for name, tensor in self._named().items()}
        return state

    @isolated()
    def load_state(self, state: State) -> None:
        super().load_state(state)
        if self.columns.tasks:

            def load(kind: str) -> list[Tensor]:
                named = self.network.named_parameters()
                return [state.tensor(f"{kind}.{name}", each.shape).to(self.torch_device) for name, each in named]

            self.importance, self.anchor = load("importance"), load("anchor")

    def storage(self) -> Footprint:
        tensors = self._named().values()
        floats = sum(tensor.numel() for tensor in tensors)
        return Footprint(0, floats, 4 * floats)


class PenaltyTraining(TaskTraining):
    """Loss and penalty; when a task is over, its importances are added."""

    learner: PenaltyLearner

    def objective(self, batch: Examples) -> Tensor:
        loss, learner = self.task_loss(batch), self.learner
        for parameter, u, v in zip(self.network.parameters(), learner.importance, learner.anchor, strict=False):
            loss = loss + (u * parameter.square() - 2 * v * parameter).sum()
        return loss

    def task_loss(self, batch: Examples) -> Tensor:
        """Loss of a batch without the penalty."""
        return super().objective(batch)

    def finish(self) -> None:
        with self.tracker.phase("importance"):
            self.learner.remember(self)

    def squared_gradients(self, value: Callable[[Examples], Tensor]) -> list[Tensor]:
        """Mean over batches of the squared gradient of ``value``, for each parameter."""
        learner = self.learner
        parameters = list(self.network.parameters())
        total = [torch.zeros_like(parameter) for parameter in parameters]
        batches = 0
        schedule = Schedule(IMPORTANCE_BATCH, learner.seed, self.observation.index)
        for batch in schedule.one_pass(self.examples, learner.epochs):
            batches += 1
            gradients = torch.autograd.grad(value(batch), parameters)
            for sum_of_squares, gradient in zip(total, gradients, strict=True):
                sum_of_squares += gradient.square()
        return [sum_of_squares / batches for sum_of_squares in total]
