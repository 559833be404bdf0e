"""DeLoMe: a learned, lossless memory and a debiased replay loss."""

from __future__ import annotations

from delome.learning import METHODS
from delome.learning.replay import Replay
from delome.losses import Debiased
from delome.memories import KernelMatching


@METHODS.register("delome")
class DeLoMe(Replay):
    """Debiased lossless memory replay (Niu, Pang, Chen, 2024).

    After each task, ``budget`` rows per class are learned whose loss gradients match those of the class's real rows in
    expectation over random networks: in closed form, or with ``memory="gradient-matching"`` by sampled networks as in
    the paper. Later tasks replay them under logits adjusted by class frequency: by the share of a class in the weights
    of the loss, or with ``prior="rows"`` in rows, as in the paper.

    >>> from delome import TaskStream, load_graph
    >>> stream = TaskStream(load_graph("synthetic", nodes=400, classes=4))
    >>> learner = DeLoMe(budget=5, epochs=50)
    >>> for task in stream:
    ...     learner.observe(task)
    >>> min(learner.evaluate(stream)) > 80
    True
    """

    memory = KernelMatching()
    loss = Debiased(prior="weights")

    family = "replay of learned rows"
    citation = "Niu, Pang, Chen, 2024"
    summary = "learned memory × debiased replay: the paper's method"
