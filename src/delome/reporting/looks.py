"""Looks: the colour, marker and dashes by which a method is known in every figure, and the order of methods.

Colours are those of Okabe and Ito, which people without full colour vision can tell apart; yellow is darkened and black
is grey, so that both show on white and on black paper. Marker and dashes alone tell methods apart as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from delome.learning import METHODS

GREY, BLUE, GREEN, PURPLE, ORANGE, SKY, YELLOW, VERMILLION = (
    "#8a8a8a", "#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#b3a100", "#d55e00"
)  # fmt: skip
COLOURS = (GREEN, PURPLE, BLUE, ORANGE, SKY, YELLOW, VERMILLION, GREY)
"""Of methods that have no colour of their own."""

OWN = {
    "finetune": GREY, "joint": YELLOW, "ewc": SKY, "mas": GREEN, "gem": PURPLE, "lwf": BLUE, "twp": ORANGE,
    "hpns": VERMILLION, "ergnn": GREEN, "ssm-uniform": SKY, "ssm-degree": PURPLE, "sem-curvature": GREY,
    "cat": ORANGE, "delome": VERMILLION, "analytic": BLUE, "slda": GREEN, "prototypes": PURPLE, "er": ORANGE,
    "agem": YELLOW, "tpp": BLUE, "tpp-nodes": SKY, "puma": GREEN, "private": VERMILLION, "replay": YELLOW,
}  # fmt: skip
"""Methods that are often drawn together have different ones, and so have those with the same marker."""

SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right", "triangle-left")
MARKERS = dict(zip(SHAPES, "os^DPv><", strict=True))
"""Markers of matplotlib."""

DASHES = ((1, 0), (6, 3), (2, 2), (8, 3, 2, 3))
ROUNDS = (1, 0, 2, 3)
"""Dashes of the first eight methods, the next eight, …: memories are solid, what came before them is dashed."""
LINES = dict(zip(DASHES, ("-", "--", ":", "-."), strict=True))
"""Line styles of matplotlib."""


@dataclass(frozen=True)
class Look:
    """How a method is drawn."""

    colour: str
    shape: str
    dash: tuple[int, ...]

    def variant(self, number: int) -> Look:
        """The look of another run of the same method: its colour, with other dashes and another marker."""
        shape = SHAPES[(SHAPES.index(self.shape) + number) % len(SHAPES)]
        dash = DASHES[(DASHES.index(self.dash) + number + number // len(SHAPES)) % len(DASHES)]
        return replace(self, shape=shape, dash=dash)

    @property
    def marker(self) -> str:
        """The marker in matplotlib."""
        return MARKERS[self.shape]

    @property
    def line(self) -> str:
        """The line style in matplotlib."""
        return LINES[self.dash]


def in_order(methods: Iterable[str]) -> list[str]:
    """Names of methods, ours as they are registered, others behind them by name.

    >>> in_order(["mine:Method", "delome", "finetune", "delome"])
    ['finetune', 'delome', 'mine:Method']
    """
    known = list(METHODS)
    return sorted({*methods}, key=lambda name: (known.index(name) if name in known else len(known), name))


def looks_of(methods: Iterable[str]) -> dict[str, Look]:
    """The look of each method, in the order of methods; that of ours does not depend on the others.

    >>> looks_of(["delome"])["delome"].colour
    '#d55e00'
    """
    wanted = in_order(methods)
    found: dict[str, Look] = {}
    for place, name in enumerate([*METHODS, *(name for name in wanted if name not in METHODS)]):
        shape, dash = SHAPES[place % len(SHAPES)], DASHES[ROUNDS[place // len(SHAPES) % len(DASHES)]]
        taken = {look.colour for look in found.values() if look.shape == shape}
        free = [colour for colour in COLOURS if colour not in taken]
        found[name] = Look(OWN.get(name, free[0] if free else COLOURS[place % len(COLOURS)]), shape, dash)
    return {name: found[name] for name in wanted}


def looks_of_rows(
    methods: Sequence[str], looks: Mapping[str, Look], fixed: Mapping[int, Look] | None = None
) -> list[Look]:
    """Looks of rows that are drawn together, by their methods: the first row of a method has that of the method, others
    have its colour and, as long as there are any, markers that no method of this colour has, whether it is there or
    not. Rows whose look is ``fixed``, by their places, keep it."""
    fixed = fixed or {}
    every = [*looks_of(METHODS).values(), *looks.values(), *fixed.values()]
    taken = {(look.colour, look.shape) for look in every}
    used = [(methods[place], look) for place, look in fixed.items()]
    found: list[Look] = []
    for place, method in enumerate(methods):
        look = fixed.get(place, looks[method])
        if place not in fixed and (method, look) in used:
            variants = [look.variant(k) for k in range(1, len(SHAPES))]
            free = [each for each in variants if (each.colour, each.shape) not in taken]
            unused = [each for k in range(1, 4 * len(SHAPES)) if (method, each := look.variant(k)) not in used]
            look = (free or unused or variants)[0]
            taken.add((look.colour, look.shape))
        used.append((method, look))
        found.append(look)
    return found


def look_of(method: str) -> Look:
    """The look of one method."""
    return looks_of([method])[method]
