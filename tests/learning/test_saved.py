from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

import delome
from delome import TaskStream
from delome.errors import DelomeError, PersistenceError, StateError
from delome.learning import METHODS, Learner
from delome.learning.learner import KIND
from delome.learning.saved import restore
from delome.persistence.state import State
from delome.persistence.state_files import load_state, save_state

MANY = 5_000_000
Make = Callable[[str], Learner]
LEARNERS: dict[str, tuple[str, dict[str, Any]]] = {
    "finetune": ("finetune", {}),
    "gat": ("finetune", {"backbone": "gat"}),
    "ewc": ("ewc", {}),
    "lwf": ("lwf", {}),
    "gem": ("gem", {}),
    "replay": ("replay", {}),
    "ssm-uniform": ("ssm-uniform", {}),
    "hpns": ("hpns", {"setting": "til"}),
    "analytic": ("analytic", {}),
    "analytic, per task": ("analytic", {"setting": "til", "per_task": True}),
}


@pytest.fixture
def make(tiny: Callable[..., Learner]) -> Make:
    """Makes a small learner by its name here."""

    def learner(name: str) -> Learner:
        method, options = LEARNERS[name]
        return tiny(method, **options)

    return learner


@pytest.fixture(params=LEARNERS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def learner(name: str, make: Make, toy_stream: TaskStream) -> Learner:
    learner = make(name)
    for task in toy_stream[:2]:
        learner.observe(task)
    return learner


def hollow(state: State) -> Iterator[tuple[str, State]]:
    """States in which a table and what belongs to it is empty, be it wide or long beyond all measure."""
    for name, tensor in state.tensors.items():
        if tensor.dim() != 2 or name.startswith("adam.") or name.endswith("momentum"):
            continue
        own = name.removeprefix("model.")
        family = {name, f"adam.{own}.exp_avg", f"adam.{own}.exp_avg_sq", f"{name}.momentum"} & state.tensors.keys()
        for shape in ((0, MANY), (MANY, 0), (0, tensor.shape[1]), (tensor.shape[0], 0)):
            empty = dict.fromkeys(family, torch.empty(shape, dtype=tensor.dtype))
            yield f"{name} of shape {shape}", State(state.tensors | empty, state.values)


@contextmanager
def little_is_allocated(change: str) -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < 4 * MANY, change
    finally:
        tracemalloc.stop()


def test_nothing_is_allocated_for_tensors_that_only_claim_to_be_large(name: str, make: Make, learner: Learner) -> None:
    fresh = make(name)
    for change, other in hollow(learner.state()):
        with little_is_allocated(change), pytest.raises(DelomeError):
            restore(fresh, other, Path("model"))
            pytest.fail(f"accepted: {change}")


def test_a_learner_is_saved_and_loaded_with_all_it_knows(learner: Learner, tmp_path: Path) -> None:
    learner.save(tmp_path)
    again = delome.load(tmp_path).state()
    assert again.values == learner.state().values
    assert all(torch.equal(again.tensors[key], tensor) for key, tensor in learner.state().tensors.items())


@pytest.mark.parametrize("method", ["finetune", "replay", "analytic", "hpns"])
def test_a_learner_that_has_learned_nothing_comes_back(method: str, tmp_path: Path) -> None:
    METHODS[method]().save(tmp_path)
    assert delome.load(tmp_path).classes == []


WRONG_VALUES: dict[str, Callable[[dict[str, Any]], object]] = {
    "a task without classes": lambda values: values["task_classes"].append([]),
    "tasks × classes beyond all measure": lambda values: values.update(
        task_classes=[[0]] * 60_000 + [list(range(2000))], classes=list(range(2000)), class_names=[None] * 2000
    ),
    "more classes than columns": lambda values: values.update(
        task_classes=[list(range(9))], classes=list(range(9)), class_names=[None] * 9
    ),
}


@pytest.mark.parametrize("change", WRONG_VALUES)
def test_values_that_no_tensor_bears_out_are_refused(change: str, make: Make, toy_stream: TaskStream) -> None:
    learner = make("finetune")
    learner.observe(toy_stream[0])
    state = learner.state()
    WRONG_VALUES[change](state.values)
    with pytest.raises(StateError, match=r"the state does not fit the learner: it(s network)? has .* classes"):
        make("finetune").load_state(state)


@pytest.mark.parametrize("method", ["replay", "analytic", "finetune", "lwf", "gem", "hpns"])
def test_tasks_without_anything_learned_are_refused(method: str, tmp_path: Path) -> None:
    METHODS[method]().save(tmp_path)
    about, state = load_state(tmp_path, KIND)
    state.values |= {"task_classes": [[0]], "classes": [7], "class_names": [None]}
    if method == "replay":
        state.values["memory"] = [{"nodes": MANY, "report": {}}]
        state.tensors["memory.0.features"] = torch.empty(MANY, 0)
    save_state(tmp_path, KIND, about, state)
    with pytest.raises(PersistenceError, match=r"cannot be loaded|is not a safetensors file"):
        delome.load(tmp_path)


@pytest.mark.parametrize("device", ["privateuseone", "hpu", "xla", "opengl", "cuda:99", ""])
def test_a_device_that_is_not_there_is_refused(device: str, tmp_path: Path) -> None:
    METHODS["finetune"]().save(tmp_path)
    about, state = load_state(tmp_path, KIND)
    with pytest.raises(PersistenceError, match=r"device .* cannot be used here: try auto or cpu"):
        delome.load(tmp_path, device=device)
    about["parameters"]["device"] = device
    save_state(tmp_path, KIND, about, state)
    with pytest.raises(PersistenceError, match=r"device .* cannot be used here: try auto or cpu"):
        delome.load(tmp_path)
