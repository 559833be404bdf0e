"""SSM and SEM: sparsified subgraph memories, so that message passing is replayed too."""

from __future__ import annotations

from delome.learning import METHODS
from delome.learning.footprint import FootprintFormula
from delome.learning.replay import Replay
from delome.losses import Balanced
from delome.memories import Subgraphs


@METHODS.register("ssm-uniform")
class SSMUniform(Replay):
    """Sparsified subgraph memory, neighbours uniformly at random (Zhang, Song, Tao, 2022).

    Stores random training nodes (centres) of each class with a few neighbours of each, hop by hop, and the edges among
    them; only centres carry loss. CIL: one class-balanced loss over current nodes and all centres, those of the current
    task included. TIL: the current loss plus one loss for each old task.

    >>> from delome import TaskStream, load_graph
    >>> stream = TaskStream(load_graph("synthetic", nodes=400, classes=4))
    >>> learner = SSMUniform(budget=5, epochs=50)
    >>> for task in stream:
    ...     learner.observe(task)
    >>> min(learner.evaluate(stream)) > 80
    True
    """

    memory = Subgraphs(neighbours="uniform")
    loss = Balanced()
    remember = "before"

    family = "replay of subgraphs"
    keeps = FootprintFormula("≤ 11·b·C", "≤ 11·b·C·F", "≤ 44·b·C·(F + 1) + 4·E + 16·b·C + 4·T")
    citation = "Zhang, Song, Tao, 2022"
    summary = "replays centres with random neighbours"


@METHODS.register("ssm-degree")
class SSMDegree(SSMUniform):
    """Sparsified subgraph memory, neighbours with probability proportional to their degree (Zhang, Song, Tao, 2022)."""

    memory = Subgraphs(neighbours="degree")

    summary = "replays centres with neighbours drawn by degree"


@METHODS.register("sem-curvature")
class SEMCurvature(SSMUniform):
    """Subgraph episodic memory, neighbours of largest Ricci curvature (Zhang, Song, Tao, 2023).

    Across an edge of negative curvature little information flows, so those neighbours are dropped first. No code of it
    is public: this takes the balanced Forman curvature (Topping et al., 2022), the largest first, hop by hop.
    """

    memory = Subgraphs(neighbours="curvature")

    citation = "Zhang, Song, Tao, 2023"
    summary = "replays centres with neighbours across the most curved edges"
