import pytest
import torch

from delome import FineTune, Joint, TaskStream
from delome.backbones.examples import Examples
from delome.learning import TaskTraining
from delome.progress import Tracker


def test_all_tasks_are_learned(toy_stream):
    learner = Joint(epochs=60)
    for task in toy_stream:
        learner.observe(task)
    assert min(learner.evaluate(toy_stream)) > 90


@pytest.mark.parametrize("batch_size", [None, 2000, 50])
def test_the_first_task_equals_fine_tune(toy_stream, batch_size):
    joint, finetune = Joint(epochs=5, batch_size=batch_size), FineTune(epochs=5, batch_size=batch_size, passes=True)
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
    rows = Examples(None, labels, tasks)  # type: ignore[arg-type]  # scores are given, inputs are not read
    training = TaskTraining(learner, None, rows, Tracker())  # type: ignore[arg-type]  # nor is an observation
    torch.testing.assert_close(training.loss(zeros, rows), expected)


@pytest.mark.parametrize("inter_task_edges", [False, True])
@pytest.mark.parametrize(("setting", "batch_size"), [("cil", None), ("cil", 2000), ("til", 2000)])
def test_a_step_minimises_the_loss_on_all_tasks_in_the_graphs_they_have_now(
    uneven_graph, last_step, balanced, setting, batch_size, inter_task_edges
):
    stream = TaskStream(uneven_graph, inter_task_edges=inter_task_edges)
    learner = Joint(epochs=2, hidden=8, weight_decay=0.0, setting=setting, batch_size=batch_size)
    for task in stream[:2]:
        learner.observe(task)
    step = last_step(learner, stream[2])

    def terms(tasks):
        parts = [step.train_logits(task) for task in tasks]
        if setting == "til":
            own = [(logits[:, 2 * k : 2 * k + 2], labels - 2 * k) for k, (logits, labels) in enumerate(parts)]
            return [balanced(*part) for part in own]
        if batch_size is None:
            return [balanced(*part) for part in parts]
        return [balanced(*(torch.cat(each) for each in zip(*parts, strict=True)))]

    step.assert_minimises(*terms(stream.seen(stream[2])))
    if inter_task_edges:
        as_they_were = sum(terms(TaskStream(uneven_graph)))
        assert step.distance(step.gradient(as_they_were)) > 0.02, "edges between tasks would not be missed"
