from __future__ import annotations

import numpy as np
import pytest
import torch

from delome.errors import StateError
from delome.streams.columns import KnownClasses, LabelColumns, Setting

TASKS: list[tuple[int, ...]] = [(0, 1), (2, 3)]


def test_cil_rows_compete_over_every_class_seen() -> None:
    logits = torch.arange(12.0).reshape(2, 6)
    restricted = LabelColumns("cil", TASKS).restrict(logits, torch.tensor([0, 1]))
    assert torch.equal(restricted, logits[:, :4])


def test_til_rows_compete_within_their_own_task() -> None:
    restricted = LabelColumns("til", TASKS).restrict(torch.zeros(2, 6), torch.tensor([0, 1]))
    inf = float("inf")
    assert restricted.tolist() == [[0, 0, -inf, -inf], [-inf, -inf, 0, 0]]


@pytest.mark.parametrize("setting", ["cil", "til"])
def test_columns_of_unseen_classes_never_win(setting: Setting) -> None:
    logits = torch.tensor([[0.0, 1.0, torch.inf, torch.inf]])
    columns = LabelColumns(setting, [(0, 1)])
    assert columns.restrict(logits, torch.tensor([0])).argmax(dim=1).tolist() == [1]


def test_infinite_logits_outside_the_task_do_not_change_a_til_answer() -> None:
    logits = torch.tensor([[torch.inf, torch.inf, 1.0, 2.0, torch.inf]])
    restricted = LabelColumns("til", TASKS).restrict(logits, torch.tensor([1]))
    assert restricted.argmax(dim=1).tolist() == [3]


@pytest.mark.parametrize("setting", ["cil", "til"])
def test_no_gradient_reaches_a_column_that_a_row_may_not_use(setting: Setting) -> None:
    logits = torch.zeros(1, 6, requires_grad=True)
    restricted = LabelColumns(setting, TASKS).restrict(logits, torch.tensor([1]))
    torch.nn.functional.cross_entropy(restricted, torch.tensor([2])).backward()
    assert logits.grad is not None
    used = [0, 1, 2, 3] if setting == "cil" else [2, 3]
    assert logits.grad[0].nonzero().ravel().tolist() == used


def test_seen_grows_with_the_tasks() -> None:
    assert [LabelColumns("cil", TASKS[:count]).seen for count in range(3)] == [0, 2, 4]


def test_tasks_may_have_different_numbers_of_classes() -> None:
    columns = LabelColumns("til", [(0,), (1, 2, 3)])
    allowed = columns.restrict(torch.zeros(2, 4), torch.tensor([0, 1])).isfinite()
    assert allowed.tolist() == [[True, False, False, False], [False, True, True, True]]


def test_known_labels_keep_their_columns_and_new_ones_get_the_next() -> None:
    known = KnownClasses().extended([9, 2]).extended([2, 5, 9, 0])
    assert known.labels == (9, 2, 5, 0)
    columns = known.columns_of(np.array([0, 9, 9, 5, 2]))
    assert columns.tolist() == [3, 0, 0, 2, 1]
    assert known.labels_of(columns).tolist() == [0, 9, 9, 5, 2]
    assert known.labels_of(columns).dtype == np.int64


def test_names_are_kept_for_known_labels_and_may_not_change() -> None:
    known = KnownClasses().extended([3, 1], ["a", "b"])
    assert known.names == {1: "b"}, "label 3 has no name"
    known = known.extended([], ["x", "b", "c", "d"])
    assert known.names == {1: "b", 3: "d"}
    with pytest.raises(StateError) as error:
        known.extended([0], ["x", "b", "c", "e"])
    assert str(error.value) == (
        "class 3 has been called 'd' so far, but this graph calls it 'e': "
        "give each class one label and one name in all graphs"
    )
