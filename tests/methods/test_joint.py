import pytest
import torch

from delome import FineTune, Joint, TaskStream


def test_all_tasks_are_learned(toy_stream):
    learner = Joint(epochs=60)
    for task in toy_stream:
        learner.observe(task)
    assert min(learner.evaluate(toy_stream)) > 90


@pytest.mark.parametrize("batch_size", [None, 2000, 50])
def test_the_first_task_equals_fine_tune(toy_stream, batch_size):
    joint, finetune = Joint(epochs=5, batch_size=batch_size), FineTune(epochs=5, batch_size=batch_size)
    joint.observe(toy_stream[0])
    finetune.observe(toy_stream[0])
    for a, b in zip(joint.network.parameters(), finetune.network.parameters(), strict=True):
        assert torch.equal(a, b)


def test_what_was_learned_before_does_not_matter(toy_stream):
    through, alone = Joint(epochs=5), Joint(epochs=5)
    for task in toy_stream:
        through.observe(task)
    alone.columns = type(through.columns)("cil", through.columns.tasks[:2])
    alone.known = type(through.known)(through.known.labels[:4])
    alone.observe(toy_stream[2])
    for a, b in zip(through.network.parameters(), alone.network.parameters(), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize(("setting", "batch_size", "terms"), [("cil", None, 3), ("cil", 2000, 1), ("til", 2000, 3)])
def test_loss_is_summed_over_tasks_in_full_batch_and_in_til(toy_stream, setting, batch_size, terms):
    learner = Joint(epochs=1, setting=setting, batch_size=batch_size)
    for task in toy_stream:
        learner.observe(task)
    labels = torch.tensor([0, 1, 2, 3, 4, 5])
    tasks = labels // 2
    zeros = torch.zeros(6, 6)
    classes = 2 if setting == "til" else 6
    expected = terms * torch.log(torch.tensor(float(classes)))
    torch.testing.assert_close(learner.loss_of(zeros, labels, tasks), expected)


def test_inter_task_edges_are_used(toy_graph):
    stream = TaskStream(toy_graph, inter_task_edges=True)
    learner = Joint(epochs=60)
    for task in stream:
        learner.observe(task)
    assert min(learner.evaluate(stream.seen(stream[2]))) > 90
