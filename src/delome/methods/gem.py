"""GEM: gradient episodic memory."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import scipy.linalg
import scipy.optimize
import torch
from torch import Tensor

from delome.backbones.examples import Examples
from delome.errors import StateError
from delome.learning import METHODS, GradientLearner, TaskTraining
from delome.learning.footprint import Footprint, FootprintFormula
from delome.learning.training import check_finite
from delome.losses import Balanced, ScoredRows
from delome.parameters import Param
from delome.persistence.state import State
from delome.progress import Tracker
from delome.randomness import generator
from delome.streams.columns import LabelColumns
from delome.streams.tasks import Observation

DAMPING = 1e-3
"""ε of the quadratic programme."""


def project(gradient: Tensor, old: Tensor, margin: float) -> Tensor:
    """Gradient changed as little as possible so that no old task's loss rises: g + Gᵀ v.

    v solves min ½ vᵀ(G Gᵀ + εI)v + (G g)ᵀv subject to v ≥ margin; with u = v - margin this is a non-negative least
    squares problem. Untouched if it already agrees with every old gradient (row of ``old``), and NaN if products of
    gradients are not finite: then there is no direction to keep.

    >>> project(torch.tensor([1.0, 0.0]), torch.tensor([[-1.0, 1.0]]), 0.5).tolist()
    [0.5, 0.5]
    """
    agreement = (old @ gradient).double().cpu().numpy()
    if (agreement >= 0).all():
        return gradient
    gram = (old @ old.T).double().cpu().numpy() + DAMPING * np.eye(len(old))
    with np.errstate(over="ignore", invalid="ignore"):
        linear = agreement + gram @ np.full(len(old), margin)
    if not np.isfinite(linear).all():
        return torch.full_like(gradient, torch.nan)
    factor = np.linalg.cholesky(gram)
    u, _ = scipy.optimize.nnls(factor.T, -scipy.linalg.solve_triangular(factor, linear, lower=True))
    return gradient + torch.from_numpy(u + margin).to(old) @ old


@METHODS.register("gem")
class GEM(GradientLearner):
    """Projects each step's gradient so that it does not raise the loss on stored nodes of old tasks (Lopez-Paz and
    Ranzato, 2017). The stored nodes' neighbours are needed too, so it keeps every old graph and says so.

    Old gradients are taken at the start of each epoch, over the columns known when their task was learned; a positive
    ``margin`` adds at least that much of every old gradient whenever one disagrees.

    >>> from delome import TaskStream, load_graph
    >>> stream = TaskStream(load_graph("digits"))
    >>> learner = GEM(epochs=5, setting="til")
    >>> for task in stream:
    ...     learner.observe(task)
    >>> len(learner.evaluate(stream))
    5
    """

    stored: Annotated[int, Param("training nodes stored per task, spread over its classes", at_least=1)] = 100
    margin: Annotated[float, Param("least share γ of each old gradient once one disagrees", at_least=0)] = 0.5

    needs_past = True
    family = "gradient projection"
    keeps = FootprintFormula("N", "N·F + T·p", "4·N·F + 4·T·p + 4·E + 4·N + 4·T")
    citation = "Lopez-Paz and Ranzato, 2017"
    search = ({"stored": (100, 1000), "margin": (0.0, 0.5)},)
    summary = "projects gradients so that stored nodes of old tasks do not get worse; keeps every graph"

    def forget(self) -> None:
        super().forget()
        self.positions: list[np.ndarray] = []

    def begin(self, observation: Observation, examples: Examples, tracker: Tracker) -> GEMTraining:
        with tracker.phase("prepare"):
            past = [self.examples(task) for task in observation.past()]
            if any(stored.max() >= len(task) for task, stored in zip(past, self.positions, strict=True)):
                raise StateError("the state does not fit the learner: it stores nodes that are not there")
            old = [task.select(stored) for task, stored in zip(past, self.positions, strict=True)]
        return GEMTraining(self, observation, examples, tracker, old)

    def state(self) -> State:
        state = super().state()
        state.tensors |= {f"stored.{k}": torch.from_numpy(ids.copy()) for k, ids in enumerate(self.positions)}
        return state

    def load_state(self, state: State) -> None:
        super().load_state(state)
        names = [f"stored.{k}" for k in range(len(self.columns.tasks))]
        self.positions = [state.tensor(name, [None], torch.int64).numpy() for name in names]
        if any(
            not len(stored) or stored.min() < 0 or stored.max() >= self.past_graphs.rows for stored in self.positions
        ):
            raise StateError("the state does not fit the learner: it stores nodes that are not there")

    def storage(self) -> Footprint:
        past = self.past_graphs
        gradients = sum(parameter.numel() for _ in self.positions for parameter in self.network.parameters())
        return Footprint(past.rows, past.floats + gradients, past.bytes + 4 * gradients)


class GEMTraining(TaskTraining):
    """Projects the gradients of each step by those of the stored nodes of every old task."""

    learner: GEM

    def __init__(
        self, learner: GEM, observation: Observation, examples: Examples, tracker: Tracker, old: list[Examples]
    ) -> None:
        super().__init__(learner, observation, examples, tracker)
        self.old = old
        self._gradients: tuple[int, Tensor] | None = None

    def adjust(self, epoch: int) -> None:
        if not self.old:
            return
        if self._gradients is None or self._gradients[0] != epoch:
            self._gradients = epoch, torch.stack([self._old_gradient(k, epoch) for k in range(len(self.old))])
        parameters = list(self.network.parameters())
        flat = torch.cat([_grad(parameter).flatten() for parameter in parameters])
        projected = project(flat, self._gradients[1], self.learner.margin)
        if projected is flat:
            return
        check_finite(projected, "the projected gradient", self.observation.index, epoch)
        for parameter, part in zip(parameters, projected.split([p.numel() for p in parameters]), strict=True):
            _grad(parameter).copy_(part.view_as(parameter))

    def _old_gradient(self, task: int, epoch: int) -> Tensor:
        """Flat gradient of the class-balanced loss on the stored nodes of an old task."""
        rng = generator(self.learner.seed, "fanout of old tasks", len(self.old), epoch, task)
        stored = self.old[task].read(rng)
        known = LabelColumns(self.columns.setting, self.columns.tasks[: task + 1])
        logits = known.restrict(self.network(stored.inputs), stored.tasks)
        loss = Balanced()(ScoredRows(logits, stored.labels, torch.zeros_like(stored.tasks), self.counts))
        gradients = torch.autograd.grad(loss, list(self.network.parameters()))
        return torch.cat([gradient.flatten() for gradient in gradients])

    def finish(self) -> None:
        observation, learner = self.observation, self.learner
        rng = generator(learner.seed, "gem", observation.index)
        share = -(-learner.stored // len(observation.classes))
        chosen = []
        for column in observation.classes:
            own = np.flatnonzero(observation.labels == column)
            chosen.append(rng.choice(own, min(share, len(own)), replace=False))
        learner.positions.append(np.sort(np.concatenate(chosen)))


def _grad(parameter: torch.nn.Parameter) -> Tensor:
    assert parameter.grad is not None
    return parameter.grad
