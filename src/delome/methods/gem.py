"""GEM: gradient episodic memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
import scipy.linalg
import scipy.optimize
import torch
from torch import Tensor

from delome.columns import LabelColumns
from delome.errors import StateError
from delome.losses import Balanced
from delome.methods.gradient import GradientLearner
from delome.parameters import Param
from delome.randomness import generator
from delome.state import Keeps, State, Storage
from delome.stream import Observation
from delome.tracking import Tracker
from delome.training import Examples, check_finite

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


@dataclass(kw_only=True)
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

    stored: Annotated[int, Param("training nodes stored per task, spread over its classes", least=1)] = 100
    margin: Annotated[float, Param("least share γ of each old gradient once one disagrees", least=0)] = 0.5

    needs_past: ClassVar[bool] = True
    family: ClassVar[str] = "gradient projection"
    keeps: ClassVar[Keeps] = Keeps("N", "N·F + T·p", "4·N·F + 4·T·p + 4·E + 4·N + 4·T")
    citation: ClassVar[str] = "Lopez-Paz and Ranzato, 2017"
    summary: ClassVar[str] = "projects gradients so that stored nodes of old tasks do not get worse; keeps every graph"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.positions: list[np.ndarray] = []

    def begin(self, observation: Observation, examples: Examples, tracker: Tracker) -> Examples:
        with tracker.phase("prepare"):
            past = [self.examples(task) for task in observation.past()]
            if any(stored.max() >= len(task) for task, stored in zip(past, self.positions, strict=True)):
                raise StateError("the state does not fit the learner: it stores nodes that are not there")
            self._old = [task.select(stored) for task, stored in zip(past, self.positions, strict=True)]
        self._gradients: tuple[int, Tensor] | None = None
        return examples

    def adjust(self) -> None:
        if not self._old:
            return
        parameters = list(self.network.parameters())
        if self._gradients is None or self._gradients[0] != self.epoch:
            self._gradients = self.epoch, torch.stack([self._old_gradient(k) for k in range(len(self._old))])
        flat = torch.cat([_grad(parameter).flatten() for parameter in parameters])
        projected = project(flat, self._gradients[1], self.margin)
        if projected is flat:
            return
        check_finite(projected, "the projected gradient", len(self._old), self.epoch)
        for parameter, part in zip(parameters, projected.split([p.numel() for p in parameters]), strict=True):
            _grad(parameter).copy_(part.view_as(parameter))

    def _old_gradient(self, task: int) -> Tensor:
        """Flat gradient of the class-balanced loss on the stored nodes of an old task."""
        rng = generator(self.seed, "fanout of old tasks", len(self._old), self.epoch, task)
        stored = self._old[task].read(rng)
        columns = LabelColumns(self.setting, self.columns.tasks[: task + 1])
        logits = columns.restrict(self.network(stored.inputs), stored.tasks)
        loss = Balanced()(logits, stored.labels, torch.zeros_like(stored.tasks), self.counts)
        gradients = torch.autograd.grad(loss, list(self.network.parameters()))
        return torch.cat([gradient.flatten() for gradient in gradients])

    def end(self, observation: Observation, tracker: Tracker) -> None:
        rng = generator(self.seed, "gem", observation.index)
        share = -(-self.stored // len(observation.classes))
        chosen = []
        for column in observation.classes:
            own = np.flatnonzero(observation.labels == column)
            chosen.append(rng.choice(own, min(share, len(own)), replace=False))
        self.positions.append(np.sort(np.concatenate(chosen)))
        self._old, self._gradients = [], None

    def state(self) -> State:
        state = super().state()
        state.tensors |= {f"stored.{k}": torch.from_numpy(ids.copy()) for k, ids in enumerate(self.positions)}
        return state

    def load_state(self, state: State) -> None:
        super().load_state(state)
        names = [f"stored.{k}" for k in range(len(self.columns.tasks))]
        self.positions = [state.tensor(name, [None], torch.int64).numpy() for name in names]
        if any(
            not len(stored) or stored.min() < 0 or stored.max() >= self.kept_graphs.rows for stored in self.positions
        ):
            raise StateError("the state does not fit the learner: it stores nodes that are not there")

    def storage(self) -> Storage:
        kept = self.kept_graphs
        gradients = sum(parameter.numel() for _ in self.positions for parameter in self.network.parameters())
        return Storage(kept.rows, kept.floats + gradients, kept.bytes + 4 * gradients)


def _grad(parameter: torch.nn.Parameter) -> Tensor:
    assert parameter.grad is not None
    return parameter.grad
