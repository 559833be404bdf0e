"""SEM: subgraph episodic memory, sparsified by Ricci curvature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from delome.memories.subgraph import Curvature, CurvatureKind, NeighbourRule
from delome.methods.ssm import SubgraphReplay
from delome.parameters import Param


@dataclass(kw_only=True)
class SEMCurvature(SubgraphReplay):
    """Subgraph episodic memory, neighbours of largest Ricci curvature (Zhang, Song, Tao, 2023).

    Across an edge of negative curvature little information flows, so those neighbours are dropped first. No code of it
    is public: this takes the balanced Forman curvature (Topping et al., 2022), the largest first, hop by hop.
    """

    curvature: Annotated[
        CurvatureKind, Param("bfc: balanced Forman; bfc3: without 4-cycles; auto: bfc3 on large dense graphs")
    ] = "auto"

    citation: ClassVar[str] = "Zhang, Song, Tao, 2023"
    summary: ClassVar[str] = "replays centres with neighbours across the most curved edges"

    def rule(self) -> NeighbourRule:
        return Curvature(self.curvature)
