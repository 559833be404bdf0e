"""CaT: condense and train."""

from __future__ import annotations

from delome.learning import METHODS
from delome.learning.replay import Replay
from delome.losses import Plain
from delome.memories import DistributionMatching


@METHODS.register("cat")
class CaT(Replay):
    """Condenses each task into ``budget`` rows per class, then trains on condensed rows only (Liu, Qiu, Huang, 2023).

    Rows are learned so that their mean embedding under random encoders is that of their class: in closed form, or with
    ``encoders=3000`` by sampled encoders as in the paper. Training in memory keeps old and new classes in balance: the
    current task's real nodes are not used any more once it is condensed. Training is over all classes seen in either
    setting; task-incremental evaluation looks at the task's own.

    >>> from delome import TaskStream, load_graph
    >>> stream = TaskStream(load_graph("synthetic", nodes=400, classes=4))
    >>> learner = CaT(budget=20, epochs=50)
    >>> for task in stream:
    ...     learner.observe(task)
    >>> min(learner.evaluate(stream)) > 80
    True
    """

    memory = DistributionMatching()
    loss = Plain(pooled=True)
    train_on = "memory"
    batch_size = None
    compares_all = True

    family = "replay of learned rows"
    citation = "Liu, Qiu, Huang, 2023"
    summary = "condenses each task by distribution matching and trains on condensed rows alone"
