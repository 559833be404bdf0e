"""Parameters that everything which releases private statistics has."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from delome.errors import ParameterError
from delome.parameters import Param
from delome.release.noise import Source

Epsilon: TypeAlias = Annotated[
    float | Literal["inf"], Param("ε of what a task releases; inf = no noise and no guarantee, as a control", above=0)
]
Delta: TypeAlias = Annotated[float, Param("δ of the guarantee, well below 1 / number of training nodes", above=0)]
EpsilonTotal: TypeAlias = Annotated[
    float | None, Param("most ε that may be spent on a node whose class comes again; none = no limit", above=0)
]
NoiseSource: TypeAlias = Annotated[
    Source, Param("secret: of the operating system; seed: repeatable, and no secret to whoever knows the seed")
]


def check_delta(delta: float) -> None:
    """Refuses a δ that promises nothing."""
    if delta >= 1:
        raise ParameterError(f"delta must be less than 1, not {delta:g}")
