"""DeLoMe: a learned, lossless memory and a debiased replay loss."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

from delome.errors import ParameterError
from delome.losses import Debiased
from delome.memory import GradientMatching, KernelMatching, MemoryBank, MemoryBuilder
from delome.memory.gradient_matching import MatchLoss
from delome.memory.initial import Initial
from delome.memory.kernel_matching import KernelName
from delome.memory.merging import take_out, with_counts
from delome.methods.replay import Replay
from delome.parameters import Param
from delome.state import KEEPS_ROWS, Keeps
from delome.stream import Observation
from delome.tracking import Tracker

Matching = Literal["exact", "sampled"]


@dataclass(kw_only=True)
class DeLoMe(Replay):
    """Debiased lossless memory replay (Niu, Pang, Chen, 2024).

    After each task, ``budget`` rows per class are learned whose loss gradients match those of the class's real rows in
    expectation over random networks. Later tasks replay them under logits adjusted by class frequency.

    >>> from delome import TaskStream, load_graph
    >>> stream = TaskStream(load_graph("synthetic", nodes=400, classes=4))
    >>> learner = DeLoMe(budget=5, epochs=50)
    >>> for task in stream:
    ...     learner.observe(task)
    >>> min(learner.evaluate(stream)) > 80
    True
    """

    budget: Annotated[int, Param("memory rows per class", least=1)] = 60
    tau: Annotated[float, Param("strength of the logit adjustment", least=0)] = 1.0
    matching: Annotated[Matching, Param("exact: closed form; sampled: random networks, as in the paper")] = "exact"
    init: Annotated[Initial | None, Param("where memory rows start: mixture for exact, raw for sampled")] = None
    kernel: Annotated[KernelName, Param("kernel of exact matching: the network's tangent kernel, or CaT's")] = "ntk"
    networks: Annotated[int, Param("random networks of sampled matching", least=1)] = 800
    memory_lr: Annotated[float, Param("Adam's step size of sampled matching", above=0)] = 1e-4
    match_loss: Annotated[MatchLoss, Param("loss of sampled matching: ce, or nll on raw logits")] = "ce"

    family: ClassVar[str] = "replay of learned rows"
    keeps: ClassVar[Keeps] = KEEPS_ROWS
    citation: ClassVar[str] = "Niu, Pang, Chen, 2024"
    summary: ClassVar[str] = "learned memory × debiased replay: the paper's method"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.matching == "exact" and self.init == "raw":
            raise ParameterError("exact matching starts in propagated space: choose init mixture, noise or propagated")

    def memory_builder(self) -> MemoryBuilder:
        if self.matching == "exact":
            return KernelMatching(
                self.budget, self.kernel, self.init or "mixture", self.hidden, device=self.torch_device
            )
        return GradientMatching(
            self.budget,
            self.networks,
            self.memory_lr,
            self.match_loss,
            self.init or "raw",
            self.hidden,
            device=self.torch_device,
        )

    def remember(self, observation: Observation, tracker: Tracker) -> MemoryBank:
        builder = self.memory_builder()
        if self.recurring == "append" or not isinstance(builder, KernelMatching):
            return super().remember(observation, tracker)
        bank, earlier = take_out(self.bank, observation.classes)
        fresh = self.build(replace(builder, earlier=earlier), observation, tracker)
        return MemoryBank([*bank.memories, with_counts(fresh, observation.labels, earlier)])

    def make_loss(self) -> Debiased:
        return Debiased(self.tau)
