"""Edge weights are used, or refused in a sentence: by every method, on every backbone."""

import numpy as np
import pytest
import torch

from delome import TaskStream
from delome.errors import GraphError
from delome.methods import METHODS
from delome.testing import Subject

SMALL = {"epochs": 3, "networks": 3, "encoders": 5, "pretrain": 3, "budget": 4, "hidden": 8, "features": 16}
REFUSED = {"hpns", "twp", "sem-curvature"}
"""Methods that look at edges one by one."""
EDGE_FREE = {"private"}
"""Methods that learn without edges, and use them when they are asked about nodes."""


def learner_of(name, **parameters):
    setting = METHODS[name].settings[0]
    return Subject(METHODS[name], setting, parameters).make(**SMALL)


@pytest.fixture
def weighted(toy_graph):
    data = toy_graph.to_pyg()
    source, target = data.edge_index
    data.edge_weight = 0.1 + ((source * target) % 7).float()  # the same in both directions
    return type(toy_graph).from_pyg(data)


@pytest.mark.parametrize("name", METHODS)
def test_weights_matter_or_are_refused(name, toy_graph, weighted):
    learner = learner_of(name)
    tasks = TaskStream(weighted)
    if name in REFUSED:
        with pytest.raises(GraphError, match=r"cannot use edge weights: choose another, or drop them"):
            for task in tasks:
                learner.observe(task)
        return
    without = learner_of(name)
    for task, plain in zip(tasks, TaskStream(toy_graph), strict=True):
        learner.observe(task)
        without.observe(plain)
    tensors, others = learner.state().tensors, without.state().tensors
    same = all(tensors[key].shape == others[key].shape and torch.equal(tensors[key], others[key]) for key in tensors)
    assert same == (name in EDGE_FREE)
    assert not np.array_equal(learner.scores(weighted), without.scores(toy_graph))
    again = learner_of(name)
    again.load_state(learner.state())
    assert (again.predict(weighted) == learner.predict(weighted)).all()


@pytest.mark.parametrize("parameters", [{"backbone": "gat"}, {"fanout": "2,2"}])
def test_networks_that_cannot_use_weights_refuse_them(parameters, weighted):
    with pytest.raises(GraphError, match="cannot use edge weights"):
        learner_of("finetune", **parameters).observe(TaskStream(weighted)[0])


def test_dropping_the_weights_is_the_graph_without_them(toy_graph, weighted):
    assert weighted.unweighted().fingerprint() == toy_graph.fingerprint()
    assert np.array_equal(weighted.unweighted().propagate(2), toy_graph.propagate(2))
