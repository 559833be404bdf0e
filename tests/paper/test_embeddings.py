from __future__ import annotations

from collections import Counter

import pytest

from delome import FineTune, TaskStream
from delome.paper.embeddings import ORIGINAL, embedding_map
from delome.paper.experiment import load_experiment


@pytest.fixture(scope="module")
def experiment():
    return load_experiment("embeddings")


def test_memories_and_nodes_share_a_map(experiment, toy_stream: TaskStream) -> None:
    said: list[str] = []
    rows, points = embedding_map(experiment, "toy", toy_stream, FineTune(setting="til"), 5, said.append)
    assert [row["label"] for row in rows] == ["random nodes", "SSM-uniform", "DeLoMe"]
    counts = Counter(point["panel"] for point in points)
    # two classes of 40 nodes, of which 24 are for training; five rows of each in a memory
    assert counts == {ORIGINAL: 48, "random nodes": 10, "SSM-uniform": 10, "DeLoMe": 10}
    assert {point["group"] for point in points} == {"0", "1"}
    of_delome = rows[2]["metrics"]["same_class"]["measured"]
    assert of_delome == 100.0  # the classes are far apart
    assert said[-1] == "placing points in the plane"
    assert embedding_map(experiment, "toy", toy_stream, FineTune(setting="til"), 5, said.append) == (rows, points)
    for other in (FineTune(setting="til", seed=1), FineTune(setting="til", columns=2)):
        assert embedding_map(experiment, "toy", toy_stream, other, 5, said.append)[1] != points
