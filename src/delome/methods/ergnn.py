"""ERGNN: experience replay for graph neural networks."""

from __future__ import annotations

from delome.learning import METHODS
from delome.learning.replay import Replay
from delome.losses import Mixed
from delome.memories import Experience


@METHODS.register("ergnn")
class ERGNN(Replay):
    """``L = β L_cur + (1 - β) L_mem`` with β = B / (B + n), for B stored and n current nodes (Zhou and Cao, 2021).

    Stored are raw features of chosen training nodes without edges, so that a backbone does not propagate them. In
    class-incremental learning L_mem is one class-balanced loss over all stored nodes, those of the current task
    included; task-incremental learning mixes in one old task after the other, L ← β L + (1 - β) L_k.

    >>> from delome import TaskStream, load_graph
    >>> stream = TaskStream(load_graph("synthetic", nodes=400, classes=4))
    >>> learner = ERGNN(budget=20, epochs=50)
    >>> for task in stream:
    ...     learner.observe(task)
    >>> min(learner.evaluate(stream)) > 80
    True
    """

    memory = Experience()
    loss = Mixed()
    remember = "before"

    citation = "Zhou and Cao, 2021"
    search = ({"sampler": ("cm",), "radius": (0.5, None)}, {"sampler": ("mf", "random")})
    summary = "replays raw features of chosen nodes, weighed by how many there are"
