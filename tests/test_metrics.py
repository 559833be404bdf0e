from __future__ import annotations

import numpy as np
import pytest

from delome import AccuracyMatrix
from delome.metrics import Score

HAND_COMPUTED = [[90.0], [80.0, 70.0], [60.0, 65.0, 95.0]]


def test_average_accuracy_is_the_mean_of_the_last_row() -> None:
    assert AccuracyMatrix(HAND_COMPUTED).aa == pytest.approx(73.33, abs=0.005)


def test_average_forgetting_is_the_mean_change_since_each_task_was_learned() -> None:
    assert AccuracyMatrix(HAND_COMPUTED).af == pytest.approx(-17.5, abs=1e-12)


def test_forgetting_is_positive_when_old_tasks_improve() -> None:
    assert AccuracyMatrix([[50.0], [60.0, 100.0]]).af == pytest.approx(10, abs=1e-12)


def test_forgetting_is_undefined_for_a_single_task() -> None:
    assert AccuracyMatrix([[90.0]]).af is None


def test_the_curve_is_the_mean_of_each_row() -> None:
    assert AccuracyMatrix(HAND_COMPUTED).curve == pytest.approx([90, 75, 73 + 1 / 3], abs=1e-9)


def test_rows_are_appended_task_by_task() -> None:
    matrix = AccuracyMatrix()
    for row in HAND_COMPUTED:
        matrix.append(row)
    assert matrix.rows == HAND_COMPUTED


@pytest.mark.parametrize("row", [[], [1.0, 2.0]])
def test_a_row_of_the_wrong_length_is_refused(row: list[float]) -> None:
    with pytest.raises(ValueError, match="row 0 of an accuracy matrix has 1 entries"):
        AccuracyMatrix().append(row)


def test_an_appended_row_is_a_copy() -> None:
    matrix, row = AccuracyMatrix(), [1.0]
    matrix.append(row)
    row[0] = 2.0
    assert matrix.rows == [[1.0]]


def test_balanced_accuracy_weighs_classes_and_micro_accuracy_weighs_nodes() -> None:
    labels = np.array([0] * 10 + [1])
    predicted = np.array([0] * 9 + [1, 0])
    score = Score.of(predicted, labels)
    assert score.balanced == pytest.approx(45.0, abs=1e-9)
    assert score.micro == pytest.approx(81.8, abs=0.05)


def test_classes_that_are_only_predicted_do_not_count() -> None:
    score = Score.of(np.array([4, 4, 7]), np.array([4, 4, 5]))
    assert score.balanced == 50.0
    assert score.micro == pytest.approx(200 / 3)


def test_all_right_is_a_hundred_and_all_wrong_is_zero() -> None:
    labels = np.array([2, 3, 3])
    assert Score.of(labels, labels) == Score(100.0, 100.0)
    assert Score.of(labels + 1, labels) == Score(0.0, 0.0)


def test_forgetting_is_known_after_each_task() -> None:
    assert AccuracyMatrix(HAND_COMPUTED).af_curve == [None, pytest.approx(-10), pytest.approx(-17.5)]


def test_a_mean_needs_matrices_of_the_same_tasks() -> None:
    with pytest.raises(ValueError):
        AccuracyMatrix.mean([AccuracyMatrix(HAND_COMPUTED), AccuracyMatrix(HAND_COMPUTED[:2])])


def test_every_number_of_a_matrix() -> None:
    matrix = AccuracyMatrix([[90.0], [80.0, 70.0], [60.0, 65.0, 95.0], [50.0, 55.0, 75.0, 100.0]])
    assert matrix.summary() == {
        "aa": 70.0,
        "af": pytest.approx((50 - 90 + 55 - 70 + 75 - 95) / 3),
        "learning": (90 + 70 + 95 + 100) / 4,
        "anytime": pytest.approx((90 + 75 + 220 / 3 + 70) / 4),
        "last": 100.0,
    }
