import numpy as np
import pytest

from delome import CaT, DeLoMe, Replay, TaskStream
from delome.memories import by_class, distribution_matching, initial, kernel_matching
from delome.privacy.sources import copied_from, is_copy, sources_of


@pytest.mark.parametrize(
    ("method", "parameters", "module"),
    [
        (DeLoMe, {"init": "mixture"}, kernel_matching),
        (DeLoMe, {"init": "propagated"}, kernel_matching),
        (DeLoMe, {"memory": "gradient-matching", "networks": 1, "init": "mixture"}, initial),
        (DeLoMe, {"memory": "gradient-matching", "networks": 1}, initial),
        (CaT, {}, distribution_matching),
        (CaT, {"encoders": 2}, initial),
    ],
)
def test_what_rows_were_begun_from_is_drawn_again(method, parameters, module, toy_stream, monkeypatch):
    drawn, real = [], initial.initial_weights

    def recorded(*arguments):
        drawn.append(real(*arguments))
        return drawn[-1]

    monkeypatch.setattr(module, "initial_weights", recorded)
    monkeypatch.setattr(by_class, "_one_thread_each", lambda work, *each: list(map(work, *each)))
    learner = method(budget=4, epochs=1, seed=5, **parameters)
    for task in toy_stream:
        learner.observe(task)
    found = [(sources_of(learner, task) or {})[column] for task in toy_stream for column in task.classes]
    assert len(found) == len(drawn) == 6
    for mine, theirs in zip(found, drawn, strict=True):
        np.testing.assert_array_equal(mine.toarray(), theirs.toarray())


@pytest.mark.parametrize("parameters", [{"init": "noise"}, {"memory": "kmeans"}, {"recurring": "merge"}])
def test_where_it_cannot_be_known_nothing_is_claimed(parameters, toy_stream):
    learner = DeLoMe(budget=4, epochs=1, **parameters)
    learner.observe(toy_stream[0])
    assert sources_of(learner, toy_stream[0]) is None


def test_copies_are_told_from_likes():
    rows = np.array([[1.0, 2.0], [1.0, 2.1], [0.0, 0.0], [2.0, 4.0]])
    of = np.array([[1.0, 2.0], [1.0, 2.0], [0.0, 0.0], [1.0, 2.0]])
    assert is_copy(rows, of).tolist() == [True, False, False, False]
    weights = copied_from(rows, of, np.array([1, 1, 2, 0]))
    assert weights.toarray().tolist() == [[0, 1, 0, 0], [0] * 4, [0] * 4, [0] * 4]


def test_copies_of_raw_rows_are_found_in_both_spaces(toy_graph):
    from delome.privacy.subject import Audited, class_rows

    stream = TaskStream(toy_graph)
    learner = Replay(memory="raw", budget=4, epochs=1)
    learner.observe(stream[0])
    for space in ("raw", "propagated"):
        for rows in class_rows(learner, [Audited.of_task(learner, stream[0])], space):
            assert np.diff(rows.sources.indptr).tolist() == [1] * 4
