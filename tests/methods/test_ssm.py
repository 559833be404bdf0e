import numpy as np
import pytest
import torch

from delome import Graph, TaskStream
from delome.methods import ERGNN, FineTune, SEMCurvature, SSMDegree, SSMUniform

ALL = [SSMUniform, SSMDegree, SEMCurvature]


def learn(learner, stream, count=3):
    for task in list(stream)[:count]:
        learner.observe(task)
    return learner


@pytest.mark.parametrize("backbone", ["sgc", "gcn", "gat"])
@pytest.mark.parametrize("method", ALL)
def test_a_class_incremental_step_minimises_one_balanced_loss_over_current_nodes_and_all_centres(
    uneven_stream, last_step, memories_of, balanced, monkeypatch, method, backbone
):
    monkeypatch.setattr("delome.backbones.gat.DROPOUT", 0.0)
    learner = learn(method(budget=3, epochs=2, hidden=8, weight_decay=0.0, backbone=backbone), uneven_stream, 1)
    step = last_step(learner, uneven_stream[1])
    parts = [step.train_logits(uneven_stream[1]), *map(step.memory_logits, memories_of(learner))]
    logits, labels = (torch.cat(each) for each in zip(*parts, strict=True))
    assert len(labels) == len(uneven_stream[1].train) + 12
    step.assert_minimises(balanced(logits[:, :4], labels))


@pytest.mark.parametrize("method", ALL)
def test_a_task_incremental_step_adds_one_loss_for_each_old_task(
    uneven_stream, last_step, memories_of, balanced, method
):
    learner = learn(method(budget=3, epochs=2, hidden=8, weight_decay=0.0, setting="til"), uneven_stream, 2)
    step = last_step(learner, uneven_stream[2])
    parts = [*map(step.memory_logits, memories_of(learner)[:2]), step.train_logits(uneven_stream[2])]
    step.assert_minimises(
        *(balanced(logits[:, 2 * k : 2 * k + 2], labels - 2 * k) for k, (logits, labels) in enumerate(parts))
    )


@pytest.mark.parametrize("method", ALL)
@pytest.mark.parametrize("setting", ["cil", "til"])
def test_the_first_task_is_fine_tune(toy_stream, method, setting):
    common = {"epochs": 5, "hidden": 16, "setting": setting}
    plain, replayed = FineTune(**common), method(budget=4, **common)
    plain.observe(toy_stream[0])
    replayed.observe(toy_stream[0])
    for a, b in zip(plain.network.parameters(), replayed.network.parameters(), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("method", ALL)
def test_memory_holds_budget_centres_per_class_and_at_most_ten_neighbours_each(toy_stream, method):
    learner = learn(method(budget=4, epochs=1, hidden=8), toy_stream)
    for memory in learner.bank.memories:
        assert len(memory.rows) == 8
        assert memory.graph.num_nodes <= 8 * 11
        assert memory.graph.num_edges > 0
        assert memory.graph.labels is None
    assert learner.storage().rows == sum(memory.graph.num_nodes for memory in learner.bank.memories)


@pytest.fixture
def rings():
    """Two classes, each a ring of 20 nodes."""
    node = np.arange(40)
    after = node // 20 * 20 + (node + 1) % 20
    features = np.random.default_rng(0).standard_normal((40, 4))
    return TaskStream(Graph(np.stack([node, after]), features, node // 20, undirected=True))


@pytest.mark.parametrize("method", ALL)
@pytest.mark.parametrize(("first", "second", "stored"), [(0, 2, 1), (1, 0, 2), (1, 1, 3), (2, 1, 4), (2, 2, 5)])
def test_a_centre_keeps_as_many_neighbours_at_each_hop_as_it_may(rings, memories_of, method, first, second, stored):
    learner = method(budget=1, epochs=1, hidden=8, neighbours_first=first, neighbours_second=second)
    (memory,) = memories_of(learn(learner, rings))
    assert memory.graph.num_nodes == 2 * stored
    # the nodes that a centre keeps are a piece of its ring
    assert memory.graph.num_edges == 2 * 2 * (stored - 1)


def test_with_room_for_all_and_no_neighbours_it_stores_what_experience_replay_stores(uneven_stream, memories_of):
    common = {"budget": 1000, "epochs": 1, "hidden": 8}
    ssm = learn(SSMUniform(**common, neighbours_first=0, neighbours_second=0), uneven_stream)
    er = learn(ERGNN(**common, sampler="random"), uneven_stream)

    def labelled_rows(memory):
        features = memory.graph.features[memory.rows]
        return sorted((label, row.tobytes()) for label, row in zip(memory.labels.tolist(), features, strict=True))

    for task, subgraph, rows in zip(uneven_stream, memories_of(ssm), memories_of(er), strict=True):
        assert labelled_rows(subgraph) == labelled_rows(rows)
        assert rows.graph.num_edges == 0
        assert subgraph.graph.num_edges == task.graph.subgraph(task.train).num_edges > 0


def test_curvature_can_leave_out_4_cycles(toy_stream):
    stored = []
    for curvature in ("bfc", "bfc3"):
        learner = learn(SEMCurvature(budget=6, epochs=1, hidden=8, curvature=curvature), toy_stream, 1)
        stored.append(learner.bank.memories[0].graph.features)
    assert stored[0].shape != stored[1].shape or not np.array_equal(*stored)
