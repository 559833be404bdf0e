"""Which nodes a stream trains, validates and tests on."""

import numpy as np
import pytest

from delome import FineTune, Graph, TaskStream
from delome.errors import StreamError

PARTS = np.arange(24) % 4
"""0: train, 1: validation, 2: test, 3: none of them; six classes of four nodes."""


def graph_with(labels=None, **masks):
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(6), 4) if labels is None else labels
    return Graph(rng.integers(24, size=(2, 60)), rng.standard_normal((24, 3)), labels, **masks)


def all_masks():
    return {"train_mask": PARTS == 0, "val_mask": PARTS == 1, "test_mask": PARTS == 2}


def parts_of(stream):
    """Nodes of the graph in each part, over all tasks."""
    return [
        sorted(np.concatenate([task.nodes[getattr(task, part)] for task in stream]).tolist())
        for part in ("train", "val", "test")
    ]


def test_masks_of_a_graph_are_its_split():
    stream = TaskStream(graph_with(**all_masks()))
    assert parts_of(stream) == [np.flatnonzero(part == PARTS).tolist() for part in range(3)]
    assert stream.describe()["split"]["kind"] == "masks of the graph"


def test_nodes_in_no_part_stay_in_the_graph():
    stream = TaskStream(graph_with(**all_masks()))
    assert sorted(np.concatenate([task.nodes for task in stream]).tolist()) == list(range(24))


def test_masks_can_be_set_aside():
    graph = graph_with(**all_masks())
    stream = TaskStream(graph, split="random", split_seed=3)
    assert parts_of(stream) == parts_of(TaskStream(graph_with(), split_seed=3)) != parts_of(TaskStream(graph))
    assert stream.describe()["split"] == {"kind": "random, 60/20/20 per class", "seed": 3}


@pytest.mark.parametrize("form", [np.asarray, np.flatnonzero, lambda mask: np.flatnonzero(mask).tolist()])
def test_a_split_can_be_given_as_masks_or_nodes(form):
    given = [form(part == PARTS) for part in (2, 0, 1)]
    stream = TaskStream(graph_with(**all_masks()), split=given)
    assert parts_of(stream) == [np.flatnonzero(part == PARTS).tolist() for part in (2, 0, 1)]


def test_only_training_nodes_of_the_masks_are_learned():
    masks = all_masks()
    held_out = np.where(masks["train_mask"], np.repeat(np.arange(6), 4), np.repeat(np.arange(6), 4)[::-1])
    states = []
    for graph in (graph_with(**masks), graph_with(**masks)._like(labels=held_out)):
        learner = FineTune(epochs=2, hidden=4)
        learner.observe(graph)
        states.append(learner.state().tensors)
    assert all((states[0][name] == states[1][name]).all() for name in states[0])


@pytest.mark.parametrize(
    ("masks", "split", "sentence"),
    [
        (
            all_masks() | {"val_mask": (PARTS == 1) & (np.arange(24) >= 4)},
            None,
            "class 0 has no val node: give every class nodes of all three parts, leave the class out with class_order, "
            "or choose split='random'",
        ),
        (
            {"train_mask": PARTS == 0},
            None,
            "the graph has no val_mask: give it train_mask, val_mask and test_mask, or choose split='random'",
        ),
        (
            {},
            "masks",
            "the graph has no train_mask: give it train_mask, val_mask and test_mask, or choose split='random'",
        ),
        (all_masks() | {"val_mask": PARTS < 2}, None, "node 0 is in train and val: a node may be in one part only"),
        ({}, "halves", "split must be 'random', 'masks' or three arrays of nodes, not 'halves'"),
        ({}, [[0], [1]], "split must be 'random', 'masks' or three arrays of nodes, not [[0], [1]]"),
        (
            {},
            [[0], [1], [24]],
            "the test part of a split must be a mask of all nodes, or node ids from 0 to 23",
        ),
    ],
)
def test_what_is_no_split_is_refused(masks, split, sentence):
    with pytest.raises(StreamError) as error:
        TaskStream(graph_with(**masks), split=split)
    assert str(error.value) == sentence


def test_the_name_of_a_class_that_lacks_a_part_is_told():
    labels = np.repeat(["ape", "bee", "cat", "dog", "eel", "fox"], 4)
    masks = all_masks() | {"test_mask": (PARTS == 2) & (np.arange(24) < 20)}
    with pytest.raises(StreamError, match="class 'fox' has no test node"):
        TaskStream(graph_with(labels, **masks))


def test_streams_share_a_fingerprint_exactly_if_they_are_equal():
    graph = graph_with(**all_masks())
    streams = [
        TaskStream(graph),
        TaskStream(graph, 3),
        TaskStream(graph, class_order=[5, 4, 3, 2, 1, 0]),
        TaskStream(graph, split="random"),
        TaskStream(graph, split="random", split_seed=1),
        TaskStream(graph, split=[PARTS == 2, PARTS == 0, PARTS == 1]),
        TaskStream(graph, inter_task_edges=True),
        TaskStream(graph_with(), split="random"),
    ]
    assert len({stream.fingerprint() for stream in streams}) == len(streams)
    assert streams[0].fingerprint() == TaskStream(graph_with(**all_masks())).fingerprint()
