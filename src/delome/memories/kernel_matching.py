"""Exact matching: the paper's objective, a sum over random networks, minimised in closed form.

The expected squared distance between the loss gradients of real rows R and memory rows Z of a class is, up to a
constant, the squared maximum mean discrepancy of the network's tangent kernel K.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

import numpy as np

from delome.graph.sparse import Features, stack
from delome.memories.bank import MemoryBank
from delome.memories.builder import MEMORIES, Context, MemoryBuilder
from delome.memories.by_class import Learned, learn_classes
from delome.memories.initial import initial_weights
from delome.memories.kernel import Kernel
from delome.memories.matching import match, weighted_rows
from delome.memories.memory import Memory
from delome.memories.merging import take_out, with_counts
from delome.memories.mmd import relative_loss
from delome.parameters import Param
from delome.streams.tasks import Observation


@MEMORIES.register("kernel-matching")
class KernelMatching(MemoryBuilder):
    """Learns rows by exact matching under a kernel; see the module.

    A class that has come before is matched to its earlier rows and the new ones together, each with the weight of the
    real rows it stands for. K is homogeneous in each argument, K(t x, z) = t K(x, z): a row that stands for t rows is
    the row t x.
    """

    kernel: Annotated[
        Literal["ntk", "arc-cosine"], Param("ntk: the network's tangent kernel; arc-cosine: mean embeddings, as CaT")
    ] = "ntk"
    init: Annotated[Literal["mixture", "noise", "propagated"], Param("what memory rows start as")] = "mixture"

    def merge(self, bank: MemoryBank, observation: Observation, context: Context, seed: int) -> MemoryBank:
        others, earlier = take_out(bank, observation.classes)
        fresh = self.build(observation, replace(context, earlier=earlier))
        return MemoryBank([*others.memories, with_counts(fresh, observation.labels, earlier)])

    def build(self, observation: Observation, context: Context) -> Memory:
        propagated = observation.graph.propagate(context.hops)
        ntk = Kernel.ntk(propagated.shape[1], context.hidden)
        kernel = ntk if self.kernel == "ntk" else Kernel.arc_cosine()
        earlier = context.earlier

        def rows_of(column: int) -> Features:
            rows = propagated[observation.train[observation.labels == column]]
            return stack([earlier[column].rows, rows]) if column in earlier else rows

        def learn(column: int, real: Features, rng: np.random.Generator) -> Learned:
            stand_for = None
            if column in earlier:
                stand_for = earlier[column].weights(more=int((observation.labels == column).sum()))
            weights = initial_weights(self.init, real.shape[0], self.budget, rng, stand_for)
            if stand_for is not None:
                real, weights = weighted_rows(real, weights, stand_for)
            matched = match(real, weights, kernel, rng, context.device)
            loss = matched.loss if kernel == ntk else relative_loss(ntk, real, matched.rows, rng)
            return Learned(matched.rows, {"relative_loss": loss, "steps": matched.steps})

        return learn_classes(observation, context, rows_of, learn)
