"""Class probabilities of nodes, until learners give them themselves."""

from __future__ import annotations

import numpy as np
import torch

from delome.graph import Graph
from delome.methods import Learner


def predict_proba(learner: Learner, graph: Graph, task: int | None = None) -> np.ndarray:
    """Softmax of the scores over the classes that a node may have: nodes × ``learner.classes``."""
    learner._check_known(task)
    within = task if learner.setting == "til" and task is not None else 0
    scores = learner._scores(learner._inputs(graph, np.arange(graph.num_nodes)), within)
    tasks = torch.full((len(scores),), within, device=scores.device)
    probabilities: np.ndarray = learner.columns.restrict(scores, tasks).softmax(dim=1).cpu().numpy()
    return probabilities
