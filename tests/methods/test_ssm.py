import numpy as np
import pytest
import torch

from delome import Graph
from delome.methods import ERGNN, FineTune, SEMCurvature, SSMDegree, SSMUniform

ALL = [SSMUniform, SSMDegree, SEMCurvature]


def learn(learner, stream, count=3):
    for task in list(stream)[:count]:
        learner.observe(task)
    return learner


def centre_logits(learner, memory):
    return learner.network(learner.network.prepare(memory.graph))[memory.rows]


@pytest.mark.parametrize("backbone", ["sgc", "gcn", "gat"])
@pytest.mark.parametrize("method", ALL)
def test_class_incremental_objective_is_one_balanced_loss_over_current_nodes_and_all_centres(
    toy_stream, method, backbone, begun, balanced
):
    learner = method(budget=3, epochs=2, hidden=16, backbone=backbone)
    batch = begun(learner, toy_stream, 1)
    memories = learner._next.memories
    logits = torch.cat([learner.network(batch.inputs), *(centre_logits(learner, memory) for memory in memories)])
    labels = torch.cat([batch.labels, *(torch.from_numpy(memory.labels) for memory in memories)])
    torch.testing.assert_close(learner.objective(batch), balanced(logits[:, :4], labels), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("method", ALL)
def test_task_incremental_objective_adds_one_loss_for_each_old_task(toy_stream, method, begun, balanced):
    learner = method(budget=3, epochs=2, hidden=16, setting="til")
    batch = begun(learner, toy_stream, 2)
    expected = balanced(learner.network(batch.inputs)[:, 4:6], batch.labels - 4)
    for task, memory in enumerate(learner.bank.memories):
        own = centre_logits(learner, memory)[:, 2 * task : 2 * task + 2]
        expected = expected + balanced(own, torch.from_numpy(memory.labels) - 2 * task)
    torch.testing.assert_close(learner.objective(batch), expected, atol=1e-5, rtol=1e-4)


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


def test_without_neighbours_centres_are_stored_like_random_experience(toy_stream):
    ssm = SSMUniform(budget=3, epochs=1, hidden=8, neighbours_first=0, neighbours_second=0)
    er = ERGNN(budget=3, epochs=1, hidden=8, sampler="random")
    for learner in (ssm, er):
        learner.observe(toy_stream[0])
    stored, replayed = ssm.bank.memories[0].graph, er.bank.memories[0].graph
    assert stored.num_nodes == replayed.num_nodes == 6
    assert isinstance(stored, Graph)
    task = toy_stream[0]
    train = {row.tobytes() for row in task.graph.features[task.train]}
    assert {row.tobytes() for row in np.concatenate([stored.features, replayed.features])} <= train


def test_curvature_can_leave_out_4_cycles(toy_stream):
    stored = []
    for curvature in ("bfc", "bfc3"):
        learner = learn(SEMCurvature(budget=6, epochs=1, hidden=8, curvature=curvature), toy_stream, 1)
        stored.append(learner.bank.memories[0].graph.features)
    assert stored[0].shape != stored[1].shape or not np.array_equal(*stored)
