import numpy as np
import pytest
import torch
from torch.nn import functional

from delome import DeLoMe
from delome.errors import ParameterError
from delome.losses import Debiased
from delome.memories import GradientMatching, KernelMatching
from delome.memories.kernel import Kernel
from delome.memories.mmd import relative_loss

QUICK = {"epochs": 60, "hidden": 64}
MATCHINGS = pytest.mark.parametrize(
    "memory", [KernelMatching(budget=20), GradientMatching(budget=20, networks=60)], ids=["exact", "sampled"]
)


@pytest.mark.parametrize("setting", ["cil", "til"])
@pytest.mark.parametrize("backbone", ["sgc", "gcn"])
@MATCHINGS
def test_old_tasks_are_remembered(toy_stream, setting, backbone, memory):
    learner = DeLoMe(setting=setting, backbone=backbone, memory=memory, **QUICK)
    for task in toy_stream:
        learner.observe(task)
    assert np.mean(learner.evaluate(toy_stream)) > 95


@MATCHINGS
def test_memory_does_not_depend_on_the_model(toy_stream, memory):
    short, long = (DeLoMe(memory=memory, **QUICK | other) for other in ({"epochs": 1}, {"epochs": 30, "lr": 0.1}))
    for learner in (short, long):
        learner.observe(toy_stream[0])
        learner.observe(toy_stream[1])
    for a, b in zip(short.bank.memories, long.bank.memories, strict=True):
        np.testing.assert_array_equal(a.graph.features, b.graph.features)


def test_raw_logit_memories_of_cil_and_til_coincide(toy_stream):
    memory = GradientMatching(budget=20, networks=60, match_loss="nll")
    learners = [DeLoMe(setting=setting, memory=memory, **QUICK) for setting in ("cil", "til")]
    for learner in learners:
        learner.observe(toy_stream[0])
    for a, b in zip(*(learner.bank.memories for learner in learners), strict=True):
        np.testing.assert_array_equal(a.graph.features, b.graph.features)


@pytest.mark.parametrize("setting", ["cil", "til"])
@pytest.mark.parametrize(("tau", "prior"), [(0.0, "rows"), (1.0, "rows"), (2.5, "rows"), (1.0, "weights")])
def test_a_step_minimises_means_over_task_and_memories_with_logits_adjusted_by_tau_log_frequency(
    uneven_stream, last_step, memories_of, setting, tau, prior
):
    learner = DeLoMe(budget=3, tau=tau, prior=prior, setting=setting, epochs=2, hidden=8, weight_decay=0.0)
    for task in uneven_stream[:2]:
        learner.observe(task)
    old, task = memories_of(learner), uneven_stream[2]
    step = last_step(learner, task)
    rows = [torch.from_numpy(task.graph.propagate(2)[task.train]), *(torch.from_numpy(m.graph.features) for m in old)]
    labels = [torch.from_numpy(task.graph.labels[task.train]), *(torch.from_numpy(m.labels) for m in old)]
    share = torch.bincount(torch.cat(labels)) / len(torch.cat(labels))
    assert share.max() > 2 * share.min()
    if prior == "weights":  # every task counts the same
        share = torch.stack([torch.bincount(part, minlength=6) / len(part) for part in labels]).mean(dim=0)

    def mean_loss(rows, labels):
        # memory rows live in propagated space: the network reads them as they are
        logits = (rows @ step.weights["first"]).relu() @ step.weights["second"] + tau * torch.log(share)
        if setting == "til":
            first = labels.min() // 2 * 2
            logits, labels = logits[:, first : first + 2], labels - first
        return functional.cross_entropy(logits, labels)

    step.assert_minimises(*map(mean_loss, rows, labels))


@pytest.mark.parametrize("tau", [0.0, 1.0, 2.5])
def test_predictions_are_not_adjusted(uneven_stream, snapshot, tau):
    learner = DeLoMe(budget=5, tau=tau, epochs=5, hidden=8)
    for task in uneven_stream[:2]:
        learner.observe(task)
    graph = uneven_stream[0].graph
    logits = snapshot(learner).logits(graph, np.arange(graph.num_nodes))
    assert learner.predict(graph).tolist() == logits[:, :4].argmax(dim=1).tolist()


def test_the_step_size_of_sampled_matching_is_the_memorys_lr(toy_stream):
    start, short, long = (
        learned_rows(toy_stream, memory=GradientMatching(networks=1, lr=lr)) for lr in (1e-12, 0.01, 0.03)
    )
    # the first step of Adam has the length of its step size in every entry that has a gradient
    moved = np.abs(short - start)
    assert np.median(moved) == pytest.approx(0.01, rel=1e-3)
    np.testing.assert_allclose(long - start, 3 * (short - start), atol=1e-4)


def learned_rows(stream, **parameters):
    learner = DeLoMe(**{"budget": 4, "epochs": 1, "hidden": 8} | parameters)
    learner.observe(stream[0])
    return learner.bank.memories[0].graph.features


@MATCHINGS
def test_memory_is_matched_for_networks_of_as_many_hidden_units(toy_stream, memory):
    narrow, wide = (learned_rows(toy_stream, memory=memory, hidden=hidden) for hidden in (2, 64))
    assert not np.array_equal(narrow, wide)


def test_each_kernel_has_a_minimiser_of_its_own(uneven_stream):
    task = uneven_stream[0]
    # with few hidden units the first layer's gradients, which the arc-cosine kernel lacks, weigh most
    kernels = {"ntk": Kernel.ntk(features=8, hidden=1), "arc-cosine": Kernel.arc_cosine()}
    learned = {name: learned_rows(uneven_stream, kernel=name, hidden=1)[:4] for name in kernels}
    real = task.graph.propagate(2)[task.train[task.graph.labels[task.train] == 0]]

    def loss(kernel, rows):
        return relative_loss(kernels[kernel], real, rows, np.random.default_rng(0))

    assert loss("ntk", learned["ntk"]) < 0.9 * loss("ntk", learned["arc-cosine"])
    assert loss("arc-cosine", learned["arc-cosine"]) < 0.9 * loss("arc-cosine", learned["ntk"])


def test_exact_memories_of_cil_and_til_coincide(toy_stream):
    learners = [DeLoMe(setting=setting, budget=20, **QUICK) for setting in ("cil", "til")]
    for learner in learners:
        learner.observe(toy_stream[0])
    for a, b in zip(*(learner.bank.memories for learner in learners), strict=True):
        np.testing.assert_array_equal(a.graph.features, b.graph.features)


def test_exact_matching_cannot_start_from_raw_rows():
    with pytest.raises(ParameterError, match=r"unknown init 'raw' \(known: mixture, noise, propagated\)"):
        DeLoMe(init="raw")


@MATCHINGS
def test_the_report_says_how_lossless_the_memory_is(toy_stream, memory):
    learner = DeLoMe(memory=memory, **QUICK)
    learner.observe(toy_stream[0])
    losses = learner.report()["relative_loss"]
    assert len(losses) == 2
    assert all(0 < loss < 1 for loss in losses)


def test_the_prior_is_that_of_the_weights_unless_rows_are_asked_for():
    assert DeLoMe().loss == Debiased(prior="weights")
    assert DeLoMe(prior="rows").loss == Debiased()
