"""Task-free streams: no boundaries, classes come and go in waves that overlap."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from delome.errors import ParameterError, StreamError
from delome.graph import Graph
from delome.parameters import Param
from delome.streams.cut import CutStream, Portion
from delome.streams.kind import STREAMS, Cutting, StreamKind
from delome.streams.splits import Parts
from delome.streams.task_stream import TaskStream

SMALLEST_SIGMA = 1e-6
"""Waves that are narrower touch one step only."""


def schedule(classes: int, steps: int, sigma: float, share: float) -> np.ndarray:
    """Classes × steps: which share of a class arrives at a step; rows add up to 1.

    With times ``τ_s = (s + ½) / steps`` and centres ``μ_c = (c + ½) / classes``, a step is made of classes in
    proportion to ``softmax_c(-(τ_s - μ_c)² / 2σ²)``; of a class, a ``share`` arrives evenly at all steps and the rest
    in proportion to these.

    >>> schedule(2, 2, 0.5, 0.0).round(3)
    array([[0.622, 0.378],
           [0.378, 0.622]])
    """
    times, centres = (np.arange(steps) + 0.5) / steps, (np.arange(classes) + 0.5) / classes
    logits = -(((times - centres[:, None]) / sigma) ** 2) / 2
    weights = np.exp(logits - logits.max(axis=0))
    weights /= weights.sum(axis=0)
    # where many classes share few steps, the largest weight of a class may be too small for its sum
    arriving = np.exp(logits - logits.max(axis=1, keepdims=True))
    sums = weights.sum(axis=1, keepdims=True)
    weights = np.where(
        sums > 1e-300, weights / np.maximum(sums, 1e-300), arriving / arriving.sum(axis=1, keepdims=True)
    )
    mixed: np.ndarray = (1 - share) * weights + share / steps
    return mixed


def largest_remainders(total: int, shares: np.ndarray) -> np.ndarray:
    """Whole numbers that add up to ``total``, in proportion to shares: rounded down, and the rest to those that have
    lost most, the first of equals.

    >>> largest_remainders(7, np.array([0.5, 0.3, 0.2])).tolist()
    [4, 2, 1]
    """
    exact = total * shares / shares.sum()
    counts: np.ndarray = np.floor(exact).astype(np.int64)
    order = np.argsort(-(exact - counts), kind="stable")
    counts[order[: total - int(counts.sum())]] += 1
    return counts


@STREAMS.register("blurry")
class Blurry(StreamKind):
    """Every node arrives once, at one of ``steps`` steps: class c in a wave around its centre, of width ``sigma`` in
    units of the whole stream (see `schedule`), and a ``share`` of it at any time.

    After each step the learner is asked about the test nodes that have arrived, which makes the mean of AA after each
    step the area under its curve. Classes are in label order, or in ``class_order``. No task is ever known.

    >>> from delome import load_graph
    >>> stream = Blurry(sigma=0.1, steps=5)(load_graph("digits"))
    >>> len(stream), stream[0].class_labels, stream[1].class_labels
    (5, (0, 1, 2, 3), (0, 1, 2, 3, 4, 5))
    """

    sigma: Annotated[float, Param("width σ of a class's wave, in units of the stream", at_least=SMALLEST_SIGMA)] = 0.1
    steps: Annotated[int | None, Param("steps of the stream; none = one for every two classes", at_least=1)] = None
    share: Annotated[float, Param("share of a class that arrives evenly at all steps", at_least=0)] = 0.0

    settings = ("cil",)
    summary = "no tasks: classes come in overlapping waves, each node once"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.share >= 1:
            raise ParameterError(f"share must be below 1, not {self.share:g}")

    def cut(self, graph: Graph, cutting: Cutting) -> CutStream:
        whole = TaskStream(
            graph, 1, class_order=cutting.class_order, split=cutting.split, split_seed=cutting.split_seed
        )
        classes = len(whole)
        steps = max(1, classes // 2) if self.steps is None else self.steps
        shares = schedule(classes, steps, self.sigma, self.share)
        arrivals = [dealt(whole.parts[column], shares[column]) for column in range(classes)]
        portions = []
        for step in range(steps if cutting.tasks is None else min(steps, cutting.tasks)):
            parts = [arrivals[column][step] for column in range(classes)]
            present = [column for column in range(classes) if len(parts[column].train)]
            portion = Portion.of([whole.user_label(column) for column in present], parts)
            if not all(len(part) for part in (portion.train, portion.val, portion.test)):
                raise StreamError(
                    f"step {step} of {steps} has no nodes to train, validate and test on: choose fewer steps or a "
                    "larger sigma"
                )
            portions.append(portion)
        return BlurryStream(graph, portions, whole, cutting)


class BlurryStream(CutStream):
    """Steps of a stream without tasks."""

    def __init__(self, graph: Graph, portions: list[Portion], whole: TaskStream, cutting: Cutting) -> None:
        self.tasks, self.classes_per_task = cutting.tasks, cutting.classes_per_task
        self.class_order, self.split_seed = whole.class_order, cutting.split_seed
        super().__init__(graph, portions, len(whole.classes), whole.split, cutting.protocol, whole.dropped)

    def details(self) -> dict[str, Any]:
        return {"stream": self.kind, "sha256": self.portions_sha256()}


def dealt(parts: Parts, shares: np.ndarray) -> list[Parts]:
    """The nodes of a class at each step; those that are asked about come with or after the first training node."""
    counts = largest_remainders(len(parts.train), shares)
    begun = np.where(np.arange(len(shares)) >= np.flatnonzero(counts)[0], shares, 0.0)
    pieces = [np.split(parts.train, np.cumsum(counts)[:-1])]
    for part in (parts.val, parts.test, parts.rest):
        weights = begun if begun.sum() > 0 else np.ones_like(shares)
        pieces.append(np.split(part, np.cumsum(largest_remainders(len(part), weights))[:-1]))
    return [Parts(*each) for each in zip(*pieces, strict=True)]
