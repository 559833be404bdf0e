"""Memories of one task beside its nodes, in the hidden units of a network that was trained on the task."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from delome.backbones.backbone import offered
from delome.learning import Learner
from delome.memories import MEMORIES, Context
from delome.methods import FineTune
from delome.paper.experiment import Experiment, Row
from delome.progress import Tracker
from delome.randomness import generator
from delome.streams.cut import CutStream
from delome.streams.tasks import Observation

NODES = 600
"""Most training nodes that are drawn in a map; of larger tasks it is a sample."""

ORIGINAL = "nodes of the task"


def embedding_map(
    experiment: Experiment,
    dataset: str,
    stream: CutStream,
    learner: Learner,
    budget: int,
    show: Callable[[str], None],
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Rows and points of a map: every memory of the first task, and the task's own training nodes.

    All are embedded by one network, which the ``learner`` trains on the task, and placed in the plane together
    (t-SNE). A row's number is the share of its points, in percent, whose nearest node of the task has their class.
    """
    task = stream[0]
    show(f"training on the first task of {dataset}")
    assert isinstance(learner, FineTune)
    learner.observe(task)
    observation = task.observation(read=learner.read)
    rng = generator(learner.seed, "map", 0)
    drawn = np.sort(rng.permutation(len(task.train))[:NODES])
    with torch.no_grad():
        embed = offered(learner.network, "embed", "a map of embeddings")
        panels = [(ORIGINAL, embed(observation.graph, task.train[drawn]), observation.labels[drawn])]
        for row in experiment.rows:
            show(f"building the memory of {row.label}")
            panels.append((row.label, *_embedded(row, budget, learner, observation)))
    show("placing points in the plane")
    places = _in_the_plane(torch.cat([units for _, units, _ in panels]), learner.seed)
    points: list[dict[str, Any]] = []
    rows: list[dict[str, Any]] = []
    start = 0
    for label, units, labels in panels:
        names = [stream.class_name(int(column)) for column in labels]
        for (x, y), name in zip(places[start : start + len(units)].tolist(), names, strict=True):
            place = {"x": round(x, 3), "y": round(y, 3)}
            points.append({"dataset": dataset, "panel": label, **place, "group": name})
        start += len(units)
        if label != ORIGINAL:
            share = _of_same_class(units, labels, *panels[0][1:])
            metrics = {"same_class": {"measured": share, "std": None, "seeds": 1, "reported": None}}
            rows.append({"label": label, "dataset": dataset, "x": None, "metrics": metrics, "runs": []})
    return rows, points


def _embedded(row: Row, budget: int, learner: FineTune, observation: Observation) -> tuple[Tensor, np.ndarray]:
    rng = generator(learner.seed, "memory", observation.index)
    context = Context(learner.network, learner.columns, rng, Tracker())
    memory = MEMORIES[row.memory](budget=budget).build(observation, context)
    embed = offered(learner.network, "embed", "a map of embeddings")
    return embed(memory.graph, memory.rows), memory.labels


def _in_the_plane(units: Tensor, seed: int) -> np.ndarray:
    from sklearn.manifold import TSNE  # takes a while to import

    perplexity = min(30.0, (len(units) - 1) / 3)
    state = int(generator(seed, "plane").integers(2**31))
    placed: np.ndarray = TSNE(init="pca", perplexity=perplexity, random_state=state).fit_transform(units.cpu().numpy())
    return placed


def _of_same_class(units: Tensor, labels: np.ndarray, nodes: Tensor, node_labels: np.ndarray) -> float:
    nearest = torch.cdist(units, nodes).argmin(dim=1).cpu().numpy()
    return 100 * float((node_labels[nearest] == labels).mean())
