"""PUMA: CaT with guessed labels, trained from scratch for every task."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Annotated, ClassVar, Literal

import numpy as np
import torch

from delome.backbones.examples import Examples
from delome.learning import METHODS
from delome.learning.replay import ReplayTraining
from delome.memories import MemoryBank, RepeatedDistributionMatching
from delome.methods.cat import CaT
from delome.parameters import Param
from delome.progress import Tracker
from delome.streams.tasks import Observation


@METHODS.register("puma")
class PUMA(CaT):
    """Pseudo-label guided memory bank (Liu et al., 2023): condenses nodes without labels too, whose class it guesses.

    A task is condensed twice. First its training nodes, as `CaT` does it; a new network, trained on the memories of
    all tasks so far, then guesses the class ŷ_v of every other node of the task's graph with probability p_v. Condensed
    again to ``budget`` rows, class c is ``Train_c ∪ {v : ŷ_v = c, p_v ≥ confidence}``; nodes that are taken for another
    task's class are in none. Another new network is trained on all memories, which have no edges; it classifies nodes
    with theirs.

    Nodes without labels are validation and **test nodes**: allowed where they are in the task's graph, but more than
    other methods use of them, so that tables mark it. Under ``inductive`` protocols only validation nodes are guessed.

    The closed form of many encoders is the default; ``encoders=100`` are the sampled ones of the paper.

    >>> from delome import TaskStream, load_graph
    >>> stream = TaskStream(load_graph("synthetic", nodes=400, classes=4))
    >>> learner = PUMA(budget=20, epochs=100)
    >>> for task in stream:
    ...     learner.observe(task)
    >>> min(learner.evaluate(stream)) > 80
    True
    """

    confidence: Annotated[
        float, Param("least probability of a guessed label that counts; 0 = all do, above 1 none", at_least=0)
    ] = 0.0
    memory = RepeatedDistributionMatching()
    epochs = 500
    lr = 1e-3

    learns_from: ClassVar[Literal["training nodes", "all nodes"]] = "all nodes"
    citation = "Liu et al., 2023"
    summary = "condenses each task, with guessed labels of its other nodes, and trains anew on condensed rows alone"

    def begin(self, observation: Observation, examples: Examples, tracker: Tracker) -> ReplayTraining:
        self._restart(observation)
        return super().begin(observation, examples, tracker)

    def remembered(self, observation: Observation, tracker: Tracker) -> MemoryBank:
        others = np.setdiff1d(np.arange(observation.graph.num_nodes), observation.train)
        if len(others) and self.confidence <= 1:
            with tracker.stage("first"), self._another_network(observation):
                bank = super().remembered(observation, tracker)
                self.fit(self.in_memory(observation, bank, tracker))
                observation = self._with_guesses(observation, others)
        return super().remembered(observation, tracker)

    def _restart(self, observation: Observation) -> None:
        self.reset(self.width, self.outputs, draw=observation.index)

    @contextmanager
    def _another_network(self, observation: Observation) -> Iterator[None]:
        """Inside this block the learner has a new network."""
        kept = self.model, self.optimizer
        self._restart(observation)
        try:
            yield
        finally:
            self.model, self.optimizer = kept

    @torch.no_grad()
    def _with_guesses(self, observation: Observation, others: np.ndarray) -> Observation:
        """The observation as if those of the other nodes were labelled whose label is guessed with confidence."""
        inputs, task = self.network.prepare(observation.graph).select(others), self._within(observation.index)
        guesses = []
        for scores in self._portions(inputs, len(others), task):
            probability, label = self.probabilities(scores.double(), task).max(dim=1)
            guesses.append(torch.where(probability >= self.confidence, label, -1).cpu().numpy())
        guessed = np.concatenate(guesses)
        chosen = np.isin(guessed, observation.classes)
        return replace(
            observation,
            train=np.concatenate([observation.train, others[chosen]]),
            labels=np.concatenate([observation.labels, guessed[chosen]]),
        )
