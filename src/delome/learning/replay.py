"""Replay: train on the current task together with a memory of the old ones. A method is a memory × a loss."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import torch
from torch import Tensor

from delome.backbones.examples import Examples, Strata
from delome.errors import ParameterError
from delome.learning.footprint import ROWS, Footprint
from delome.learning.gradient import GradientLearner
from delome.learning.isolation import isolated
from delome.learning.training import TaskTraining
from delome.losses import LOSSES, Debiased, Loss, ScoredRows
from delome.memories import MEMORIES, Context, MemoryBank, MemoryBuilder, PropagatedRows
from delome.parameters import Param, Part
from delome.persistence.state import State
from delome.progress import Tracker
from delome.randomness import generator
from delome.streams.columns import LabelColumns
from delome.streams.tasks import Observation


class Replay(GradientLearner):
    """Builds a ``memory`` of each task; every step of later tasks minimises the ``loss`` of its rows too.

    >>> from delome import TaskStream, load_graph
    >>> from delome.losses import Balanced
    >>> from delome.memories import Centroids
    >>> stream = TaskStream(load_graph("synthetic", nodes=400, classes=4))
    >>> learner = Replay(memory=Centroids(budget=5), loss=Balanced(), epochs=50)
    >>> for task in stream:
    ...     learner.observe(task)
    >>> min(learner.evaluate(stream)) > 80
    True
    """

    memory: Annotated[MemoryBuilder, Part("how a task is remembered", MEMORIES)] = PropagatedRows()
    loss: Annotated[Loss, Part("how current and remembered rows are weighed", LOSSES)] = Debiased()
    replayed: Annotated[
        int | None, Param("memory rows drawn for a step, from every class; none = all of them", at_least=1)
    ] = 512
    remember: Annotated[
        Literal["after", "before"],
        Param("when the memory of a task is built: after it, or before (and in cil replayed already in its own task)"),
    ] = "after"
    train_on: Annotated[
        Literal["task", "memory"], Param("task: the current task and memories; memory: memories alone, the task's too")
    ] = "task"
    recurring: Annotated[
        Literal["append", "merge"], Param("a class that comes again: budget rows for each time, or in all")
    ] = "append"

    compares_all: ClassVar[bool] = False
    """Whether rows compete over all classes seen while training, in the task-incremental setting too."""

    family = "replay of nodes"
    keeps = ROWS
    citation = "baseline"
    summary = "any memory × any loss: the baselines of learned memory"

    def __init__(self, **parameters: Any) -> None:
        super().__init__(**parameters)
        if self.recurring == "merge" and self.setting == "til":
            raise ParameterError("recurring=merge works in setting cil only: in til each task needs rows of its own")

    def forget(self) -> None:
        super().forget()
        self.bank = MemoryBank()

    def row_loss(self, rows: ScoredRows) -> Tensor:
        return self.loss(rows)

    def begin(self, observation: Observation, examples: Examples, tracker: Tracker) -> ReplayTraining:
        bank = None
        if self.remember == "before" or self.train_on == "memory":
            bank = self.remembered(observation, tracker)
        if self.train_on == "memory":
            assert bank is not None
            return self.in_memory(observation, bank, tracker)
        replayed = bank if bank is not None and len(self.bank) and self.setting == "cil" else self.bank
        return self.replaying(observation, examples, tracker, replayed, bank)

    def in_memory(self, observation: Observation, bank: MemoryBank, tracker: Tracker) -> ReplayTraining:
        """The training on memories alone."""
        with tracker.phase("prepare"):
            return self.replaying(observation, bank.examples(self.network), tracker, MemoryBank(), bank)

    def replaying(self, *arguments: Any) -> ReplayTraining:
        """The training of a task, of what `ReplayTraining` takes beside the learner."""
        return ReplayTraining(self, *arguments)

    def remembered(self, observation: Observation, tracker: Tracker) -> MemoryBank:
        """All memories after a task."""
        rng = generator(self.seed, "memory", observation.index)
        context = Context(self.network, self.columns, rng, tracker)
        if self.recurring == "merge" or self.memory.whole:
            return self.memory.merge(self.bank, observation, context, self.seed)
        fresh = self.memory.counted(self.memory.build(observation, context), observation.labels)
        return MemoryBank([*self.bank.memories, fresh])

    def state(self) -> State:
        state = super().state()
        self.bank.save(state)
        return state

    @isolated()
    def load_state(self, state: State) -> None:
        super().load_state(state)
        whole = self.memory.whole
        gaps = self.recurring == "merge" or whole
        self.bank = MemoryBank.load(
            state, len(self.columns.tasks), self.columns.seen, self.width, gaps, all_classes=not whole
        )

    def storage(self) -> Footprint:
        return Footprint(*self.bank.size())

    def report(self) -> dict[str, list[float]]:
        return dict(self.bank.memories[-1].report) if len(self.bank) else {}


class ReplayTraining(TaskTraining):
    """Every batch together with rows of the memories; ``bank`` is what the task leaves, if it is built already."""

    learner: Replay

    def __init__(
        self,
        learner: Replay,
        observation: Observation,
        examples: Examples,
        tracker: Tracker,
        replayed: MemoryBank,
        bank: MemoryBank | None,
    ) -> None:
        super().__init__(learner, observation, examples, tracker)
        self.bank = bank
        self.memories: Strata | None = None
        if len(replayed):
            with tracker.phase("prepare"):
                rows = replayed.examples(learner.network)
                self.memories = Strata(rows, len(rows) if learner.replayed is None else learner.replayed)
            self.counts += torch.bincount(rows.labels, minlength=len(self.counts))
        self.stored = sum(len(memory.rows) for memory in (replayed if bank is None else bank).memories)

    @property
    def columns(self) -> LabelColumns:
        columns = self.learner.columns
        return LabelColumns("cil", columns.tasks) if self.learner.compares_all else columns

    def begin_epoch(self, epoch: int) -> None:
        self._rng = generator(self.learner.seed, "replayed", self.observation.index, epoch)

    def objective(self, batch: Examples) -> Tensor:
        logits = self.network(batch.inputs)
        if self.memories is None:
            return self.loss(logits, batch, stored=self.stored)
        replayed = self.memories.draw(self._rng)
        logits = torch.cat([logits, self.network(replayed.inputs)])
        return self.loss(logits, below(batch, replayed), replayed=len(replayed), stored=self.stored)

    def finish(self) -> None:
        learner = self.learner
        learner.bank = learner.remembered(self.observation, self.tracker) if self.bank is None else self.bank


def below(batch: Examples, replayed: Examples) -> Examples:
    """Labels, tasks and weights of a batch and of replayed rows below it; the inputs are those of the batch."""
    weights = [torch.ones_like(rows.labels) if rows.weights is None else rows.weights for rows in (batch, replayed)]
    return Examples(
        batch.inputs,
        torch.cat([batch.labels, replayed.labels]),
        torch.cat([batch.tasks, replayed.tasks]),
        torch.cat(weights) if any(rows.weights is not None for rows in (batch, replayed)) else None,
    )
