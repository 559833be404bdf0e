"""What every method must do whatever its caller has set in torch, and whatever other threads do meanwhile."""

import contextlib
import copy
import pickle
import threading
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch.overrides import _get_current_function_mode_stack

from delome import TaskStream, load
from delome.errors import StateError
from delome.learning.isolation import Guard, isolated
from delome.methods import METHODS
from delome.progress import Tracker
from delome.streams.columns import Setting
from delome.testing import Subject

SMALL = {"epochs": 3, "networks": 3, "encoders": 3, "pretrain": 3, "budget": 4, "hidden": 8, "features": 32}
MORE: dict[str, tuple[str, dict[str, Any]]] = {
    "finetune, gcn": ("finetune", {"backbone": "gcn"}),
    "finetune, gat": ("finetune", {"backbone": "gat"}),
    "delome, sampled": ("delome", {"memory": "gradient-matching"}),
    "analytic, per task": ("analytic", {"setting": "til", "per_task": True}),
}
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {name: (name, {}) for name in METHODS} | MORE


def learner_of(variant):
    name, given = VARIANTS[variant]
    setting = cast("Setting", given.get("setting", METHODS[name].settings[0]))
    return Subject(METHODS[name], setting, given).make(**SMALL)


@contextlib.contextmanager
def default_type(dtype):
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


CALLERS = {
    "float64": lambda: default_type(torch.float64),
    "bfloat16": lambda: default_type(torch.bfloat16),
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
    "meta": lambda: torch.device("meta"),
}


def settings():
    """All that a caller can have set."""
    return (
        torch.get_default_dtype(),
        torch.get_default_device(),
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.is_autocast_enabled("cpu"),
        len(_get_current_function_mode_stack()),
    )


def learned(variant, stream, folder, caller=contextlib.nullcontext):
    """What comes of it: a life of a learner from its construction to the predictions of a copy that was loaded."""
    with caller():
        before = settings()
        learner = learner_of(variant)
        learner.observe(stream[0])
        successor = learner_of(variant)
        successor.load_state(learner.state())
        successor.observe(stream[1])
        successor.save(folder)
        loaded = load(folder)
        labels = [loaded.predict(stream[k].graph, task=k) for k in range(2)]
        accuracies = loaded.evaluate(stream[:2])
        assert settings() == before
    return loaded.state(), labels, accuracies


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """What comes of a variant if the caller has set nothing."""
    found = {}

    def compute(variant, graph):
        if variant not in found:
            found[variant] = learned(variant, TaskStream(graph), tmp_path_factory.mktemp("plain"))
        return found[variant]

    return compute


@pytest.mark.parametrize("caller", CALLERS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_what_the_caller_has_set_changes_no_bit_and_stays_set(variant, caller, toy_graph, expected, tmp_path):
    state, labels, accuracies = expected(variant, toy_graph)
    # a stream of its own, so that nothing was computed before
    other, other_labels, other_accuracies = learned(variant, TaskStream(toy_graph), tmp_path, CALLERS[caller])
    assert other.values == state.values and other.tensors.keys() == state.tensors.keys()
    for name, tensor in state.tensors.items():
        assert torch.equal(tensor, other.tensors[name]) and tensor.dtype == other.tensors[name].dtype, name
    assert all((a == b).all() for a, b in zip(labels, other_labels, strict=True))
    assert other_accuracies == accuracies


def test_settings_are_restored_after_an_error(toy_stream):
    learner = learner_of("finetune")
    with default_type(torch.float64), torch.inference_mode(), torch.device("meta"):
        before = settings()
        with pytest.raises(StateError):
            learner.observe(toy_stream[1])
        with pytest.raises(StateError):
            learner.predict(toy_stream[0].graph)
        assert settings() == before


def test_the_default_type_is_restored_when_the_last_of_several_threads_is_done():
    entered, leave = threading.Barrier(3), [threading.Event(), threading.Event()]

    def work(number):
        with isolated():
            entered.wait(10)
            leave[number].wait(10)
            assert torch.get_default_dtype() == torch.float32

    with default_type(torch.float64):
        threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
        for thread in threads:
            thread.start()
        entered.wait(10)
        for number, thread in enumerate(threads):
            assert torch.get_default_dtype() == torch.float32
            leave[number].set()
            thread.join(10)
        assert torch.get_default_dtype() == torch.float64


class Pausing(Tracker):
    """Stops in the middle of training until it is told to go on."""

    def __init__(self):
        super().__init__()
        self.paused, self.resume = threading.Event(), threading.Event()

    def show(self, phase, done, total):
        if phase == "train" and done == 1:
            self.paused.set()
            assert self.resume.wait(10)


@pytest.mark.parametrize("variant", ["finetune", "delome", "analytic", "hpns"])
def test_nobody_reads_what_is_half_learned(variant, toy_stream, tmp_path):
    learner, undisturbed = learner_of(variant), learner_of(variant)
    for each in (learner, undisturbed):
        each.observe(toy_stream[0])
    graph, before = toy_stream[0].graph, copy.deepcopy(learner)
    tracker = Pausing()
    thread = threading.Thread(target=learner.observe, args=(toy_stream[1], tracker))
    thread.start()
    try:
        assert tracker.paused.wait(10)
        for read in (
            lambda: learner.predict(graph, task=0),
            lambda: learner.evaluate(toy_stream[:1]),
            lambda: learner.save(tmp_path),
            lambda: learner.observe(toy_stream[1]),
        ):
            with pytest.raises(
                StateError, match="the learner is observing a task: wait until that is done, or use a copy"
            ):
                read()
        # a copy made before is as good as ever
        assert (before.predict(graph, task=0) == undisturbed.predict(graph, task=0)).all()
    finally:
        tracker.resume.set()
        thread.join(30)
    undisturbed.observe(toy_stream[1])
    assert (learner.predict(graph, task=0) == undisturbed.predict(graph, task=0)).all()
    assert learner.evaluate(toy_stream[:2]) == undisturbed.evaluate(toy_stream[:2])


def test_observing_waits_for_those_who_read(toy_stream, monkeypatch):
    learner = learner_of("finetune")
    learner.observe(toy_stream[0])
    expected = learner.predict(toy_stream[0].graph)
    reading, go_on, observed = threading.Event(), threading.Event(), threading.Event()
    logits = learner.logits

    def slow(inputs, task):
        reading.set()
        assert go_on.wait(10)
        return logits(inputs, task)

    def write():
        learner.observe(toy_stream[1])
        observed.set()

    monkeypatch.setattr(learner, "logits", slow)
    labels = []
    reader = threading.Thread(target=lambda: labels.append(learner.predict(toy_stream[0].graph)))
    reader.start()
    assert reading.wait(10)
    writer = threading.Thread(target=write)
    writer.start()
    assert not observed.wait(0.2)
    assert len(learner.columns.tasks) == 1
    go_on.set()
    writer.join(30)
    reader.join(30)
    assert observed.is_set() and len(learner.columns.tasks) == 2
    assert (labels[0] == expected).all()


def test_many_may_read_at_once():
    guard = Guard()
    with guard.reading(), guard.reading(), pytest.raises(ZeroDivisionError), guard.reading():
        raise ZeroDivisionError
    with guard.changing(), pytest.raises(StateError), guard.reading():
        pass
    with guard.changing():
        pass


def test_an_error_ends_a_change():
    guard = Guard()
    with pytest.raises(ZeroDivisionError), guard.changing():
        raise ZeroDivisionError
    with guard.reading():
        pass


@pytest.mark.parametrize("copied", [copy.deepcopy, copy.copy, lambda guard: pickle.loads(pickle.dumps(guard))])
def test_a_copy_has_a_guard_of_its_own(copied):
    guard = Guard()
    with guard.changing():
        other = copied(guard)
        with other.reading():
            pass


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_deep_copy_of_a_learner_is_another_learner(variant, toy_stream):
    learner = learner_of(variant)
    learner.observe(toy_stream[0])
    twin = copy.deepcopy(learner)
    before = learner.predict(toy_stream[0].graph, task=0)
    twin.observe(toy_stream[1])
    assert len(learner.columns.tasks) == 1
    assert np.array_equal(learner.predict(toy_stream[0].graph, task=0), before)
