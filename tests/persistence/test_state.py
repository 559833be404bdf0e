from __future__ import annotations

from typing import Any

import pytest
import torch

from delome.errors import StateError
from delome.persistence.state import State, whole_numbers


@pytest.fixture
def state() -> State:
    tensors = {"weights": torch.ones(2, 3), "labels": torch.arange(4), "bad": torch.tensor([1.0, torch.nan])}
    return State(tensors, {"count": 3, "scores": [0.5, {"deep": [float("inf")]}], "fine": {"a": [1, "b", None, 0.5]}})


def test_a_tensor_is_given_if_it_has_the_type_and_shape(state: State) -> None:
    assert state.tensor("weights", (2, 3)) is state.tensors["weights"]
    assert state.tensor("weights", (None, 3)) is state.tensors["weights"]
    assert state.tensor("labels", (4,), torch.int64) is state.tensors["labels"]


@pytest.mark.parametrize(
    ("name", "shape", "sentence"),
    [
        ("missing", (2,), "it has no 'missing'"),
        ("weights", (3, 2), "'weights' is torch.float32 of shape (2, 3), not torch.float32 of shape (3, 2)"),
        ("weights", (2,), "'weights' is torch.float32 of shape (2, 3), not torch.float32 of shape (2,)"),
        ("weights", (2, 3, None), "not torch.float32 of shape (2, 3, 0)"),
        ("labels", (4,), "'labels' is torch.int64 of shape (4,), not torch.float32 of shape (4,)"),
        ("bad", (2,), "'bad' holds numbers that are not finite"),
    ],
)
def test_any_other_tensor_is_refused(state: State, name: str, shape: tuple[int | None, ...], sentence: str) -> None:
    with pytest.raises(StateError) as error:
        state.tensor(name, shape)
    assert str(error.value).startswith("the state does not fit the learner: ")
    assert str(error.value).endswith(sentence)


def test_what_was_made_in_inference_mode_can_be_trained() -> None:
    with torch.inference_mode():
        state = State({"weights": torch.ones(2)})
    given = state.tensor("weights", (2,)).requires_grad_()
    (3 * given).sum().backward()
    assert given.grad.tolist() == [3, 3]


def test_what_is_not_finite_is_named(state: State) -> None:
    assert state.not_finite() == ["bad", "scores"]
    assert State({"a": torch.tensor([2**40])}, {"b": [1e308]}).not_finite() == []


def test_values_are_given_by_name(state: State) -> None:
    assert state.whole_number("count") == 3
    with pytest.raises(StateError, match="it has no 'nothing'"):
        state.value("nothing")
    with pytest.raises(StateError, match="'fine' must hold whole numbers"):
        state.whole_number("fine")


@pytest.mark.parametrize("values", [[1, -1], [1.0], [True], ["1"], [2**63], (1, 2), "12", None, 5, {0: 1}])
def test_only_lists_of_whole_numbers_are_such(values: Any) -> None:
    assert whole_numbers([0, 2**63 - 1], "counts") == [0, 2**63 - 1]
    with pytest.raises(StateError, match="'counts' must hold whole numbers"):
        whole_numbers(values, "counts")
