"""ER: experience replay with a reservoir."""

from __future__ import annotations

from delome.learning import METHODS
from delome.learning.footprint import FootprintFormula
from delome.learning.replay import Replay
from delome.losses import Plain
from delome.memories import Reservoir


@METHODS.register("er")
class ER(Replay):
    """Experience replay (Chaudhry et al., 2019) with a reservoir (Vitter, 1985): every training row that has come so
    far is remembered with the same probability, whatever its class and task.

    A step minimises the mean loss of the current batch and of rows drawn from the memory. The memory has ``budget``
    rows for each class that the stream will have, and frequent classes take more of them than rare ones. Tasks need no
    boundaries, and the number of remembered rows is known from the start; with live data it grows with the classes, and
    rows of later classes are more likely to be remembered.

    >>> from delome import TaskStream, load_graph
    >>> stream = TaskStream(load_graph("synthetic", nodes=400, classes=4))
    >>> learner = ER(budget=20, epochs=50)
    >>> for task in stream:
    ...     learner.observe(task)
    >>> min(learner.evaluate(stream)) > 80
    True
    """

    memory = Reservoir()
    loss = Plain(pooled=True)

    keeps = FootprintFormula("≤ b·C", "≤ b·C·F", "≤ 4·b·C·F + 16·b·C")
    citation = "Chaudhry et al., 2019"
    summary = "replays a uniform sample of all rows seen so far (reservoir)"
