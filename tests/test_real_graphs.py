"""Claims on a real citation graph (Cora-ML, 2,995 nodes, 3 tasks of 2 classes)."""

import pytest

from delome import Analytic, DeLoMe, FineTune, Joint, TaskStream, load_graph
from delome.memories import GradientMatching, KernelMatching
from delome.metrics import AccuracyMatrix


@pytest.fixture(scope="module")
def cora(shared_data):
    return TaskStream(load_graph(f"file:{shared_data / 'cora_ml.npz'}"))


def average_accuracy(learner, stream) -> float:
    matrix = AccuracyMatrix()
    for task in stream:
        learner.observe(task)
        matrix.append(learner.evaluate(stream.seen(task)))
    return matrix.aa


@pytest.mark.slow
def test_fine_tune_knows_one_task_delome_nearly_all_that_joint_knows(cora):
    finetune = average_accuracy(FineTune(epochs=100), cora)
    delome = average_accuracy(DeLoMe(epochs=100, budget=20), cora)
    joint = average_accuracy(Joint(epochs=100), cora)
    assert finetune < 40
    assert joint > 85
    assert delome > joint - 5


@pytest.mark.slow
def test_the_analytic_learner_comes_level_with_joint(cora):
    assert average_accuracy(Analytic(), cora) > average_accuracy(Joint(epochs=100), cora) - 3


@pytest.mark.slow
def test_exact_memories_match_better_than_sampled_ones(cora):
    task = cora[0]
    losses = {}
    for memory in (KernelMatching(budget=10), GradientMatching(budget=10, networks=100)):
        learner = DeLoMe(epochs=1, memory=memory)
        learner.observe(task)
        losses[type(memory)] = sum(learner.report()["relative_loss"])
    assert losses[KernelMatching] < 0.5 * losses[GradientMatching]
