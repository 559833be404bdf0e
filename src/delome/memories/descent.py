"""Rows learned by Adam with one random network after the other: the loop that sampled matchings share."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from delome.errors import DivergenceError
from delome.memories.builder import Context
from delome.persistence.state import State


def descend(
    rows: Tensor,
    draw: Callable[[], Callable[[], Tensor]],
    lr: float,
    count: int,
    context: Context,
    updates: int = 1,
) -> None:
    """Minimises in ``rows`` the distances under ``count`` random networks, each of which ``draw`` gives, by Adam.

    One step is taken for each network, or several ``updates``, for which Adam starts anew. After any network it can be
    interrupted; random draws continue where an interrupted process had stopped.
    """
    rng = context.rng
    optimizer = torch.optim.Adam([rows], lr=lr, fused=True)
    moments = {"step": (), "exp_avg": tuple(rows.shape), "exp_avg_sq": tuple(rows.shape)}

    def save() -> State:
        tensors = {name: optimizer.state[rows][name].clone() for name in moments}
        drawn = rng.bit_generator.state
        state = {
            "state": drawn["state"]["state"].tolist(),
            "has_uint32": drawn["has_uint32"],
            "uinteger": drawn["uinteger"],
        }
        return State({"rows": rows.detach().clone(), **tensors}, state)

    @torch.no_grad()
    def load(state: State) -> None:
        rows.copy_(state.tensor("rows", tuple(rows.shape)))
        for name, shape in moments.items():
            optimizer.state[rows][name] = state.tensor(name, shape).to(rows.device, copy=True)
        drawn = dict(rng.bit_generator.state)
        drawn["state"] = {"state": np.array(state.value("state"), dtype=np.uint64)}
        rng.bit_generator.state = drawn | {name: state.value(name) for name in ("has_uint32", "uinteger")}

    for step in context.tracker.steps("memory", count, save, load):
        distance = draw()
        if updates > 1:
            optimizer.state.clear()
        for _ in range(updates):
            optimizer.zero_grad()
            reached = distance()
            if not reached.isfinite():
                raise DivergenceError(
                    f"the memory's distance to its task is not finite in step {step}: "
                    "try a smaller memory.lr, or scale the features"
                )
            reached.backward()  # not autograd.grad: fused Adam needs gradients laid out like their parameter
            optimizer.step()
