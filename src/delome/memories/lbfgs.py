"""L-BFGS (Nocedal, 1980) with backtracking, for objectives whose curvature is known at the start."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable

from torch import Tensor, dot

HISTORY = 10
STALL, STALL_STEPS = 0.04, 5
"""Stop when this many iterations together lower the value by less than this share."""
SUFFICIENT = 1e-4
"""Share of the decrease that the slope promises with which a step is content."""
HALVINGS = 8

Objective = Callable[[Tensor], tuple[Tensor, Tensor]]
"""Value and gradient at a point."""


def minimise(objective: Objective, start: Tensor, iterations: int, curvature: float) -> tuple[Tensor, int]:
    """Point reached, and the number of iterations; the first step is the gradient over the ``curvature``.

    Ends when the value stalls, is not positive (a distance is zero up to rounding), or no step lowers it.
    """
    point, pairs = start.flatten(), deque[tuple[Tensor, Tensor, float]](maxlen=HISTORY)

    def at(where: Tensor) -> tuple[float, Tensor]:
        value, gradient = objective(where.view_as(start))
        return float(value), gradient.flatten()

    value, gradient = at(point)
    before, steps = math.inf, 0
    while steps < iterations and value > 0:
        if steps % STALL_STEPS == 0:
            if not value <= (1 - STALL) * before:
                break
            before = value
        direction = _direction(gradient, pairs, curvature)
        slope, length = float(dot(direction, gradient)), 1.0
        for _ in range(HALVINGS):
            moved = point.add(direction, alpha=length)
            reached, new_gradient = at(moved)
            if reached <= value + SUFFICIENT * length * slope:
                break
            # the minimum of the parabola through what is known, if it is neither too near nor too far
            parabola = -slope * length / (2 * (reached - value - slope * length))
            length *= min(max(parabola, 0.1), 0.5) if math.isfinite(parabola) else 0.1
        else:
            break
        step, change = moved - point, new_gradient - gradient
        product = float(dot(step, change))
        if product > 0:
            pairs.append((step, change, product))
        point, value, gradient = moved, reached, new_gradient
        steps += 1
    return point.view_as(start), steps


def _direction(gradient: Tensor, pairs: deque[tuple[Tensor, Tensor, float]], curvature: float) -> Tensor:
    """Minus the inverse Hessian, as the last steps and changes of the gradient suggest it, times the gradient."""
    direction, shares = gradient.neg(), []
    for step, change, product in reversed(pairs):
        shares.append(float(dot(step, direction)) / product)
        direction.sub_(change, alpha=shares[-1])
    if pairs:
        _, change, product = pairs[-1]
        curvature = float(dot(change, change)) / product
    direction.div_(curvature)
    for (step, change, product), share in zip(pairs, reversed(shares), strict=True):
        direction.add_(step, alpha=share - float(dot(change, direction)) / product)
    return direction
