import numpy as np
import pytest

from delome.methods import METHODS, Replay
from delome.parameters import parameters_of
from delome.sparse import to_dense

SMALL = {"budget": 4, "epochs": 1, "hidden": 8, "encoders": 3, "networks": 3}
REPLAYS = [name for name, method in METHODS.items() if issubclass(method, Replay)]


@pytest.mark.parametrize("name", REPLAYS)
def test_another_seed_remembers_other_rows(uneven_stream, memories_of, name):
    method = METHODS[name]

    def remembered(seed):
        learner = method(seed=seed, **{key: value for key, value in SMALL.items() if key in parameters_of(method)})
        learner.observe(uneven_stream[0])
        (memory,) = memories_of(learner)
        return to_dense(memory.graph.features)[memory.rows]

    first, same, other = map(remembered, (1, 1, 2))
    np.testing.assert_array_equal(first, same)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("name", REPLAYS)
def test_every_task_is_remembered_by_draws_of_its_own(uneven_graph, memories_of, name):
    method = METHODS[name]
    learner = method(**{key: value for key, value in SMALL.items() if key in parameters_of(method)})
    labelled = uneven_graph.with_labels(np.where(uneven_graph.labels < 2, uneven_graph.labels, -1))
    learner.observe(labelled)
    learner.observe(labelled)
    first, second = (to_dense(memory.graph.features)[memory.rows] for memory in memories_of(learner))
    assert not np.array_equal(first, second)
