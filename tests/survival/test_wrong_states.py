"""States that were never saved by a learner, though every checksum is right."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import delome
from delome.errors import DelomeError
from delome.experiment import RunConfig
from delome.methods import METHODS
from delome.parameters import parameters_of
from delome.saved import KIND
from delome.state import State
from delome.store import load_state, save_state

SMALL = {
    "hidden": "8", "epochs": "2", "dimension": "2", "budget": "2", "features": "5", "encoders": "2", "networks": "2",
    "stored": "4", "neighbours_first": "2", "neighbours_second": "2",
}  # fmt: skip
LEARNERS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "finetune": ("finetune", "cil", ()),
    "finetune, gat": ("finetune", "cil", ("backbone=gat",)),
    "ewc": ("ewc", "cil", ()),
    "mas": ("mas", "til", ()),
    "lwf": ("lwf", "cil", ()),
    "gem": ("gem", "cil", ()),
    "delome": ("delome", "cil", ()),
    "delome, merging": ("delome", "cil", ("recurring=merge",)),
    "replay": ("replay", "til", ()),
    "ssm-uniform": ("ssm-uniform", "cil", ()),
    "hpns": ("hpns", "til", ()),
    "analytic": ("analytic", "cil", ()),
    "analytic, per task": ("analytic", "til", ("per_task=true",)),
}
CASES: Counter[str] = Counter()

pytestmark = pytest.mark.slow


@dataclass
class Change:
    """Something else than what was saved."""

    name: str
    do: Callable[[dict[str, Any], State], object]


def other_tensors(name: str, tensor: Tensor) -> dict[str, Tensor]:
    """Tensors that do not fit where one was."""
    found = {"of one more dimension": tensor[None].clone(), "of another type": tensor.to(other_type(tensor.dtype))}
    if tensor.dim() and not name.startswith("stored."):  # GEM may have stored any number of nodes
        found["with a row more"] = torch.cat([tensor, tensor[:1]])
        found["with a row less"] = tensor[:-1].clone()
        found["without rows"] = tensor[:0].clone()
    if tensor.dim() == 2 and tensor.shape[0] != tensor.shape[1]:
        found["transposed"] = tensor.T.contiguous()
    if not tensor.is_floating_point() and tensor.numel():
        found["with numbers beyond all"] = tensor + 1_000_000
        found["with a negative number"] = tensor.clone().index_fill_(0, torch.tensor([len(tensor) - 1]), -1)
    if name.endswith("indptr"):
        found["that falls"] = tensor.flip(0)
    return found


def other_type(dtype: torch.dtype) -> torch.dtype:
    changed = {torch.float32: torch.float64, torch.float16: torch.float32, torch.int64: torch.float32}
    return changed.get(dtype, torch.int64)


def other_values(value: Any) -> list[Any]:
    """Values of other types, and numbers that cannot be."""
    others = [None, "text", -1, 1.5, [], [[]], {"x": 1}]
    return [other for other in others if other != value and not (value is None and other == "text")]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths to all values inside a value, the first and last of a list."""
    yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            if key != "report":
                yield from places(inner, (*path, key))
    if isinstance(value, list) and value:
        for position in {0, len(value) - 1}:
            yield from places(value[position], (*path, position))


def put(document: Any, path: tuple[Any, ...], value: Any) -> None:
    for key in path[:-1]:
        document = document[key]
    document[path[-1]] = value


def taken(document: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        document = document[key]
    return document


OF_ALL = ("task_classes", "classes", "class_names", "kept_graphs")
"""Values that every learner saves."""


def changes(about: dict[str, Any], state: State, own_only: bool) -> Iterator[Change]:
    """What all learners have in common is changed once; of others only what is their own."""
    for name, tensor in state.tensors.items():
        if own_only and name.startswith(("model.", "adam.")):
            continue
        yield Change(f"without {name}", lambda about, state, name=name: state.tensors.pop(name))
        yield Change(
            f"{name} renamed",
            lambda about, state, name=name: state.tensors.update({f"{name}s": state.tensors.pop(name)}),
        )
        for how, other in other_tensors(name, tensor).items():
            yield Change(
                f"{name} {how}", lambda about, state, name=name, other=other: state.tensors.update({name: other})
            )
    yield Change("one tensor more", lambda about, state: state.tensors.update({"more": torch.zeros(1)}))
    yield Change("one value more", lambda about, state: state.values.update({"more": 1}))
    for path in places(state.values):
        if not path or (own_only and path[0] in OF_ALL):
            continue
        beyond_all = [10**30] if path[0] in ("classes", "width") else []
        for other in [*other_values(taken(state.values, path)), *beyond_all]:
            where = ".".join(map(str, path))
            yield Change(
                f"{where} = {other!r}", lambda about, state, path=path, other=other: put(state.values, path, other)
            )
        if len(path) == 1:
            yield Change(f"without {path[0]}", lambda about, state, path=path: state.values.pop(path[0]))
    for name in about["parameters"]:
        if own_only and name in parameters_of(METHODS["finetune"]):
            continue
        for other in ([], {}, "nothing of that kind", -1):
            if other == -1 and about["parameters"][name] is None:
                continue
            yield Change(
                f"parameter {name} = {other!r}",
                lambda about, state, name=name, other=other: about["parameters"].update({name: other}),
            )
    for other in (None, 3, "nothing", ["finetune"], "joints"):
        yield Change(f"method {other!r}", lambda about, state, other=other: about.update(method=other))
    for other in (None, 3, [], "a"):
        yield Change(f"parameters {other!r}", lambda about, state, other=other: about.update(parameters=other))
    yield Change("unknown parameter", lambda about, state: about["parameters"].update(nothing=1))
    yield Change("no method", lambda about, state: about.pop("method"))
    yield Change("no parameters", lambda about, state: about.pop("parameters"))


@pytest.fixture(scope="module")
def save_learner(tmp_path_factory: pytest.TempPathFactory, lives: Any) -> Callable[[str], Path]:
    def save(name: str) -> Path:
        method, setting, assignments = LEARNERS[name]
        small = [f"{key}={value}" for key, value in SMALL.items() if key in parameters_of(METHODS[method])]
        config = RunConfig.resolve(
            "synthetic:nodes=40,classes=4,features=7,noise=4",
            method,
            setting=setting,
            assignments=[*small, *assignments],
        )
        folder = tmp_path_factory.mktemp("learner") / "model"
        lives.learned(config, config.stream(), 2).save(folder)
        return folder

    return save


@pytest.mark.parametrize("name", LEARNERS)
def test_a_state_that_no_such_learner_has_saved_is_refused(
    name: str, save_learner: Callable[[str], Path], lives: Any, tmp_path: Path
) -> None:
    about, state = load_state(save_learner(name), KIND)
    accepted, raised = [], []
    for change in changes(about, state, own_only="finetune" not in name):
        other_about, other_state = copy.deepcopy(about), copy.deepcopy(state)
        change.do(other_about, other_state)
        with lives.Disk(tmp_path).watched():
            save_state(tmp_path, KIND, other_about, other_state)
        CASES[name] += 1
        try:
            delome.load(tmp_path)
            accepted.append(change.name)
        except DelomeError as error:
            assert "\n" not in str(error) and len(str(error)) < 1000
        except Exception as error:
            raised.append(f"{change.name}: {type(error).__name__}: {error}")
    assert not accepted and not raised, f"{len(accepted)} accepted: {accepted}; {len(raised)} raised: {raised}"


def test_the_states_were_manifold(show: Callable[[str], None]) -> None:
    if len(CASES) < len(LEARNERS):
        pytest.skip("not all tests of this file were run")
    show(f"{CASES.total()} wrong states of {len(LEARNERS)} learners")
    assert CASES.total() >= 500
