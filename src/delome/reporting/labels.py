"""Where the names of points stand: beside them, and not on top of each other."""

from __future__ import annotations

import math
from collections.abc import Sequence

WIDTH, HEIGHT = 400.0, 280.0
"""Pixels of a figure, roughly: it grows and shrinks with the page."""

LETTER, LINE = 6.0, 13.0
"""Pixels of a letter, and of a line of text."""

GAP = 10.0
SIDES = {"above": (0.0, -1.0), "below": (0.0, 1.0), "right": (1.0, 0.0), "left": (-1.0, 0.0)}
"""Directions from a point to its name, y pointing down."""

Box = tuple[float, float, float, float]


def sides_of(points: Sequence[tuple[float, float, str]], log: bool) -> list[str]:
    """For each point and name the first side on which it covers nothing; ``none`` if every side does.

    >>> sides_of([(1.0, 50.0, "a"), (1.0, 50.2, "b"), (2.0, 90.0, "c")], log=False)
    ['below', 'above', 'above']
    """
    placed = _on_page(points, log)
    taken: list[Box] = [(x - 5, y - 5, x + 5, y + 5) for x, y in placed]
    found = ["none"] * len(points)
    for number in sorted(range(len(points)), key=lambda k: placed[k][1]):
        x, y = placed[number]
        others = taken[:number] + taken[number + 1 :]
        for side, direction in SIDES.items():
            box = _box(x, y, direction, points[number][2])
            if box[0] >= -60 and box[2] <= WIDTH + 60 and not any(_overlap(box, other) for other in others):
                found[number] = side
                taken.append(box)
                break
    return found


def _on_page(points: Sequence[tuple[float, float, str]], log: bool) -> list[tuple[float, float]]:
    least = min((x for x, _, _ in points if x > 0), default=1.0)
    across = [math.log(max(x, least / 2)) if log else x for x, _, _ in points]
    down = [-y for _, y, _ in points]
    return list(zip(_spread(across, WIDTH), _spread(down, HEIGHT), strict=True))


def _spread(values: Sequence[float], length: float) -> list[float]:
    extent = max(values) - min(values)
    return [length * (value - min(values)) / extent if extent else length / 2 for value in values]


def _box(x: float, y: float, direction: tuple[float, float], name: str) -> Box:
    wide = LETTER * len(name)
    middle = x + direction[0] * (GAP + wide / 2), y + direction[1] * (GAP + LINE / 4)
    return middle[0] - wide / 2, middle[1] - LINE / 2, middle[0] + wide / 2, middle[1] + LINE / 2


def _overlap(one: Box, two: Box) -> bool:
    return one[0] < two[2] and two[0] < one[2] and one[1] < two[3] and two[1] < one[3]
