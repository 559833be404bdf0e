"""DeLoMe: a learned, lossless memory and a debiased replay loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from delome.losses import Debiased
from delome.memory import GradientMatching
from delome.memory.gradient_matching import MatchLoss
from delome.memory.initial import Initial
from delome.methods.replay import Replay
from delome.parameters import Param

Matching = Literal["sampled"]


@dataclass(kw_only=True)
class DeLoMe(Replay):
    """Debiased lossless memory replay (Niu, Pang, Chen, 2024).

    After each task, ``budget`` rows per class are learned whose loss gradients match those of the class's real
    rows under random networks. Later tasks replay them under logits adjusted by class frequency.

    >>> from delome import TaskStream, load_graph
    >>> stream = TaskStream(load_graph("synthetic", nodes=400, classes=4))
    >>> learner = DeLoMe(budget=5, epochs=50, networks=50)
    >>> for task in stream:
    ...     learner.observe(task)
    >>> min(learner.evaluate(stream)) > 80
    True
    """

    budget: Annotated[int, Param("memory rows per class", least=1)] = 60
    tau: Annotated[float, Param("strength of the logit adjustment", least=0)] = 1.0
    matching: Annotated[Matching, Param("how the memory is learned: sampled = random networks, as in the paper")] = (
        "sampled"
    )
    networks: Annotated[int, Param("random networks of sampled matching", least=1)] = 800
    memory_lr: Annotated[float, Param("Adam's step size of sampled matching", above=0)] = 1e-4
    match_loss: Annotated[MatchLoss, Param("loss whose gradients match: ce, or nll on raw logits")] = "ce"
    init: Annotated[Initial, Param("where memory rows start: raw or propagated nodes, or class-moment noise")] = "raw"

    summary: ClassVar[str] = "learned memory × debiased replay: the paper's method"

    def memory_builder(self) -> GradientMatching:
        return GradientMatching(
            self.budget,
            self.networks,
            self.memory_lr,
            self.match_loss,
            self.init,
            self.hidden,
            device=self.torch_device,
        )

    def make_loss(self) -> Debiased:
        return Debiased(self.tau)
