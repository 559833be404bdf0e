"""MemoryAlone: how well a network does that was trained on the memory of a task and nothing else."""

from __future__ import annotations

from delome.backbones.examples import Examples
from delome.learning.replay import Replay, ReplayTraining
from delome.losses import Balanced
from delome.memories import MemoryBank
from delome.progress import Tracker
from delome.streams.tasks import Observation


class MemoryAlone(Replay):
    """For each task a new network is trained on that task's memory only, over the task's own classes.

    Its accuracy right after a task (the diagonal of the accuracy matrix, ``learning``) says how expressive the memory
    is. Earlier tasks are not replayed: what the network knows of them later means nothing.

    >>> from delome import TaskStream, load_graph
    >>> stream = TaskStream(load_graph("synthetic", nodes=400, classes=4))
    >>> learner = MemoryAlone(memory="kernel-matching", budget=5, epochs=50, setting="til")
    >>> for task in stream:
    ...     learner.observe(task)
    ...     print(learner.evaluate([task])[0] > 80)
    True
    True
    """

    loss = Balanced()
    settings = ("til",)
    setting = "til"

    family = "measurement"
    citation = "Niu, Pang, Chen, 2024"
    summary = "a network for each task, trained on its memory alone: how expressive memories are"

    def begin(self, observation: Observation, examples: Examples, tracker: Tracker) -> ReplayTraining:
        self.reset(self.width, observation.num_classes, draw=observation.index)
        bank = self.remembered(observation, tracker)
        newest = MemoryBank(bank.memories[-1:])
        with tracker.phase("prepare"):
            return ReplayTraining(self, observation, newest.examples(self.network), tracker, MemoryBank(), bank)
