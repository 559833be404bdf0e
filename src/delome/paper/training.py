"""How a row of an experiment was trained, and what the paper has instead: read off the learner that was run."""

from __future__ import annotations

from collections.abc import Iterator

from delome.learning import Learner
from delome.learning.gradient import GradientLearner
from delome.learning.replay import Replay
from delome.paper.alone import MemoryAlone

PASSES, BATCH = 200, 2000
"""Of a task, and training rows of a step, in the paper."""


def training_notes(learner: Learner) -> list[str]:
    """Which rows a step of a learner has, as far as the paper has others, and its weight decay in any case."""
    if not isinstance(learner, GradientLearner):
        return []
    return [*_training_rows(learner), *_memory_rows(learner), _decay(learner)]


def _training_rows(learner: GradientLearner) -> Iterator[str]:
    if learner.passes and (learner.epochs, learner.batch_size) == (PASSES, BATCH):
        return
    if learner.batch_size is None:
        own = f"{learner.epochs} steps, each on all its training rows"
    elif learner.passes:
        own = f"{learner.epochs} passes over its training rows in batches of {learner.batch_size:,}"
    else:
        own = f"{learner.epochs} steps, each on at most {learner.batch_size:,} training rows, drawn from every class"
    paper = f"{PASSES} passes over all in batches of {BATCH:,} (--set passes=true --set batch_size={BATCH})"
    yield f"A task has {own}; the paper has {paper}."


def _memory_rows(learner: GradientLearner) -> Iterator[str]:
    replays = isinstance(learner, Replay) and learner.train_on == "task" and not isinstance(learner, MemoryAlone)
    if isinstance(learner, Replay) and replays and learner.replayed is not None:
        drawn = f"at most {learner.replayed:,} rows of the memory, drawn from every class"
        yield f"A step replays {drawn}; the paper replays all (--set replayed=none)."


def _decay(learner: GradientLearner) -> str:
    if not learner.weight_decay:
        return "There is no weight decay; the benchmark's is 0.0005."
    how = f"Weight decay {learner.weight_decay:g} is"
    if learner.couples_decay:
        return f"{how} coupled: part of Adam's gradient, as in the benchmark."
    if learner.setting == "til":
        coupled = "the benchmark's coupled form (--set decay=coupled) shrinks columns of old tasks to zero"
        return f"{how} decoupled: in the task-incremental setting {coupled}."
    return f"{how} decoupled; the benchmark's is coupled (--set decay=coupled)."
