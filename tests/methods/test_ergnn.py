import pytest
import torch

from delome.methods import ERGNN, FineTune
from delome.methods.ergnn import mixing_shares


def learn(learner, stream, count=3):
    for task in list(stream)[:count]:
        learner.observe(task)
    return learner


def test_40_stored_and_160_current_nodes_give_the_current_loss_one_fifth():
    torch.testing.assert_close(mixing_shares(40 / (40 + 160), 1), torch.tensor([0.2, 0.8]))


def test_shares_equal_the_recursion_and_add_up_to_one():
    loss = torch.tensor([3.0, 5.0, 7.0, 11.0])
    mixed = loss[0]
    for part in loss[1:]:
        mixed = 0.3 * mixed + 0.7 * part
    shares = mixing_shares(0.3, 3)
    torch.testing.assert_close(shares @ loss, mixed)
    assert shares.sum().item() == pytest.approx(1)


def test_a_class_incremental_step_minimises_beta_times_the_current_loss_and_the_rest_of_all_stored_nodes(
    uneven_stream, last_step, memories_of, balanced
):
    learner = learn(ERGNN(budget=4, epochs=2, hidden=8, weight_decay=0.0), uneven_stream, 2)
    task = uneven_stream[2]
    step = last_step(learner, task)
    memories = memories_of(learner)  # that of the current task included
    stored = torch.cat([torch.from_numpy(memory.graph.features) for memory in memories])
    labels = torch.cat([torch.from_numpy(memory.labels) for memory in memories])
    assert len(stored) == 24
    beta = 24 / (24 + len(task.train))
    # replayed rows have no edges: the network reads raw features
    replayed = (stored @ step.weights["first"]).relu() @ step.weights["second"]
    step.assert_minimises(beta * balanced(*step.train_logits(task)), (1 - beta) * balanced(replayed, labels))


def test_a_task_incremental_step_mixes_in_old_tasks_one_by_one(uneven_stream, last_step, memories_of, balanced):
    learner = learn(ERGNN(budget=4, epochs=2, hidden=8, weight_decay=0.0, setting="til"), uneven_stream, 2)
    step = last_step(learner, uneven_stream[2])
    beta = 24 / (24 + len(uneven_stream[2].train))
    logits, labels = step.train_logits(uneven_stream[2])
    terms = [balanced(logits[:, 4:], labels - 4)]
    for task, memory in enumerate(memories_of(learner)[:2]):
        logits, labels = step.memory_logits(memory)
        own = balanced(logits[:, 2 * task : 2 * task + 2], labels - 2 * task)
        terms = [*(beta * term for term in terms), (1 - beta) * own]
    step.assert_minimises(*terms)


@pytest.mark.parametrize("setting", ["cil", "til"])
def test_the_first_task_is_fine_tune(toy_stream, setting):
    common = {"epochs": 5, "hidden": 16, "setting": setting}
    plain, replayed = FineTune(**common), ERGNN(budget=4, **common)
    plain.observe(toy_stream[0])
    replayed.observe(toy_stream[0])
    for a, b in zip(plain.network.parameters(), replayed.network.parameters(), strict=True):
        assert torch.equal(a, b)


def test_embeddings_of_the_last_tasks_network_choose_the_nodes(toy_stream):
    learner = ERGNN(budget=4, epochs=3, hidden=16, sampler="mf", space="embedding")
    learner.observe(toy_stream[0])
    task = toy_stream[1]
    expected = set()
    for column in task.classes:
        nodes = task.train[task.graph.labels[task.train] == column]
        units = learner.network.embed(task.graph, nodes).detach()
        nearest = (units - units.mean(dim=0)).norm(dim=1).argsort()[:4].numpy()
        expected |= {row.tobytes() for row in task.graph.features[nodes[nearest]]}
    learner.observe(task)
    assert {row.tobytes() for row in learner.bank.memories[1].graph.features} == expected
