"""Class prototypes: a node is of the class whose mean direction is nearest to its own."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Annotated

import numpy as np
import torch
from torch import Tensor

from delome.errors import DivergenceError
from delome.graph.rows import Rows
from delome.graph.sparse import Features, stack
from delome.learning.class_means import ClassMeans
from delome.learning.footprint import Footprint, FootprintFormula
from delome.learning.isolation import isolated
from delome.learning.learner import METHODS
from delome.learning.propagated import HOPS, PropagatedLearner
from delome.parameters import Param
from delome.persistence.state import State
from delome.progress import Tracker
from delome.streams.tasks import Observation


@METHODS.register("prototypes")
class Prototypes(PropagatedLearner):
    """``score_c = cos(x, p_c) / τ`` with x the node's row of S² X and p_c the mean of its class's rows at unit length.

    A nearest-class-mean classifier (Rebuffi et al., 2017; Mai et al., 2021) without a network: nothing is trained, and
    a prototype is exact however often its class comes again.

    >>> from delome import TaskStream, load_graph
    >>> stream = TaskStream(load_graph("digits"))
    >>> learner = Prototypes()
    >>> for task in stream:
    ...     learner.observe(task)
    >>> min(learner.evaluate(stream)) > 80
    True
    """

    temperature: Annotated[float, Param("temperature τ of the scores, for probabilities", above=0)] = 0.1

    family = "prototypes"
    keeps = FootprintFormula("0", "C·F", "4·C·F")
    citation = "after Rebuffi et al., 2017"
    summary = "nearest class mean by the cosine of propagated rows: no replay, no epochs"

    def forget(self) -> None:
        super().forget()
        self.known_means = ClassMeans(0, self.torch_device)

    def learn(self, observation: Observation, tracker: Tracker) -> None:
        with tracker.phase("prepare"):
            propagated = observation.graph.propagate(HOPS)
        with tracker.phase("train", len(observation.classes)) as step:
            # a copy, so that nothing is taken in twice if this is interrupted and called again
            means = copy.deepcopy(self.known_means)
            if not means.counts:
                means = ClassMeans(self.width, self.torch_device)
            for column in observation.classes:
                rows = propagated[observation.train[observation.labels == column]]
                total = torch.from_numpy(_sum_of_units(rows)).to(self.torch_device)
                means.add(column, total, rows.shape[0])
                step()
            if not means.means.isfinite().all():
                raise DivergenceError(f"the features of task {observation.index} are too large to add up: scale them")
            self.known_means = means

    def select_inputs(self, inputs: Features, index: np.ndarray) -> Features:
        return inputs[index]

    def join_inputs(self, parts: Sequence[Features]) -> Features:
        return stack(parts)

    def logits(self, inputs: Features, task: int) -> Tensor:
        lengths = torch.from_numpy(_lengths(inputs)).to(self.torch_device)[:, None]
        means = self.known_means.means
        directions = means / means.norm(dim=0).clamp(min=torch.finfo(means.dtype).tiny)
        return Rows.of(inputs, self.torch_device).times(directions) / (lengths * self.temperature)

    def state(self) -> State:
        state = super().state()
        if self.known_means.counts:
            self.known_means.save(state)
        return state

    @isolated()
    def load_state(self, state: State) -> None:
        super().load_state(state)
        if self.columns.tasks:
            self.known_means = ClassMeans.load(state, self.width, self.columns.seen, self.torch_device)

    def storage(self) -> Footprint:
        floats = self.known_means.means.numel()
        return Footprint(0, floats, 4 * floats)


def _lengths(rows: Features) -> np.ndarray:
    """Length of each row, 1 of one that is zero."""
    with np.errstate(over="ignore"):  # what overflows must not look like zero
        squares = np.square(rows).sum(axis=1) if isinstance(rows, np.ndarray) else rows.multiply(rows).sum(axis=1)
    lengths: np.ndarray = np.sqrt(np.asarray(squares, dtype=np.float32))
    return np.where(np.isinf(lengths), np.nan, np.where(lengths == 0, 1.0, lengths)).astype(np.float32)


def _sum_of_units(rows: Features) -> np.ndarray:
    """Sum of rows at unit length.

    >>> _sum_of_units(np.array([[3.0, 4.0], [0.0, 2.0], [0.0, 0.0]], dtype=np.float32)).round(3).tolist()
    [0.6000000238418579, 1.7999999523162842]
    """
    total: np.ndarray = (1 / _lengths(rows)) @ rows
    return np.asarray(total, dtype=np.float32)
