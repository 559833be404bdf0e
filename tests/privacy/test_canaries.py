import numpy as np
import pytest
import scipy.sparse as sp

from delome import Replay, TaskStream
from delome.errors import ParameterError
from delome.graph.sparse import to_dense
from delome.privacy.canaries import canary_scores, with_canaries


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_canaries_are_odd_and_half_of_them_are_held_out(kind, toy_stream, sparse_stream):
    tasks = toy_stream if kind == "dense" else sparse_stream
    planted = with_canaries(list(tasks), 6, np.random.default_rng(0))
    assert sum(len(trained) for _, trained, _ in planted) == 6
    for task, (changed, trained, held_out) in zip(tasks, planted, strict=True):
        assert len(trained) == len(held_out)
        assert set(trained) <= set(changed.train) and not set(held_out) & set(changed.train)
        assert set(changed.train) | set(held_out) == set(task.train)
        before, after = to_dense(task.graph.features), to_dense(changed.graph.features)
        odd = np.flatnonzero((before != after).any(axis=1))
        assert set(odd) <= {*trained, *held_out} and len(odd) >= len(trained)
        np.testing.assert_allclose(np.sort(before[trained]), np.sort(after[trained]))
        assert sp.issparse(changed.graph.features) == (kind == "sparse")


def test_a_memory_of_all_nodes_gives_every_canary_away(toy_stream):
    rng = np.random.default_rng(0)
    planted = with_canaries(list(toy_stream), 12, rng)
    learner = Replay(memory="raw", budget=1000, epochs=1)
    for task, _, _ in planted:
        learner.observe(task)
    found = canary_scores(learner, planted, rng)
    assert found.keys() == {"canary", "canary_raw", "canary_propagated"}
    assert found["canary_raw"].members.min() > 0.9999 > found["canary_raw"].others.max()


def test_too_few_nodes_for_canaries_are_refused(toy_graph):
    few = toy_graph.subgraph(np.flatnonzero(np.isin(np.arange(240) % 40, [0, 1, 2])))
    with pytest.raises(ParameterError, match="too few training nodes for canaries"):
        with_canaries(list(TaskStream(few)), 4, np.random.default_rng(0))
