import numpy as np
import pytest

from delome import Analytic, TaskStream, load_graph
from delome.learning.calibration import OUTLIERS, fitted_temperature


def expected_calibration_error(probabilities: np.ndarray, labels: np.ndarray, bins: int = 10) -> float:
    """Mean distance between confidence and accuracy over equal intervals of confidence."""
    confidence, right = probabilities.max(axis=1), probabilities.argmax(axis=1) == labels
    interval = np.minimum((bins * confidence).astype(int), bins - 1)
    errors = [abs((right - confidence)[interval == k].sum()) for k in range(bins)]
    return float(np.sum(errors) / len(labels))


def log_loss(probabilities: np.ndarray, labels: np.ndarray) -> float:
    return float(-np.log(probabilities[np.arange(len(labels)), labels]).mean())


def softmax(scores: np.ndarray) -> np.ndarray:
    exponentials = np.exp(scores - scores.max(axis=1, keepdims=True))
    return exponentials / exponentials.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("variance", [0.2, 1.0, 5.0])
def test_the_temperature_of_overlapping_gaussians_is_their_variance(variance: float) -> None:
    # for N(e_c, v I) the posterior is softmax(s / v); outliers raise it a little
    found = fitted_temperature(np.eye(3), variance * np.eye(3), 0.0, np.random.default_rng(0))
    assert variance * 0.9 < found < variance * 1.4


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_the_temperature_has_the_unit_of_the_scores(unit: float) -> None:
    found, scaled = (
        fitted_temperature(by * np.eye(3), by**2 * 0.5 * np.eye(3), 0.0, np.random.default_rng(0)) for by in (1.0, unit)
    )
    assert scaled == pytest.approx(unit * found, rel=1e-4)


def test_classes_that_do_not_overlap_are_as_sure_as_outliers_allow() -> None:
    temperature = fitted_temperature(np.eye(2), 1e-12 * np.eye(2), 0.0, np.random.default_rng(0))
    assert softmax(np.array([[1, 0]]) / temperature)[0, 0] == pytest.approx(1 - OUTLIERS, abs=1e-3)


def test_a_single_class_and_scores_without_spread_need_no_temperature() -> None:
    assert fitted_temperature(np.ones((1, 1)), np.ones((1, 1)), 0.0, np.random.default_rng(0)) == 1
    assert fitted_temperature(np.zeros((3, 3)), np.zeros((3, 3)), 0.0, np.random.default_rng(0)) == 1


def test_rows_that_were_not_learned_are_less_certain() -> None:
    # a score of training rows of 0.8 ± 0.1 is one of 0.6 ± 0.2 for others if half of it is their own doing
    means, spread = 0.8 * np.eye(2), 0.01 * np.eye(2)
    found = fitted_temperature(means, spread, 0.5, np.random.default_rng(0))
    others = np.array([[0.6, 0.0], [0.0, 0.6]])
    assert found == pytest.approx(fitted_temperature(others, 4 * spread, 0.0, np.random.default_rng(0)), rel=1e-3)
    assert np.isfinite(fitted_temperature(means, spread, 1.0, np.random.default_rng(0)))


def test_a_variance_below_zero_is_rounding() -> None:
    assert fitted_temperature(np.eye(2), np.diag([0.1, -1e-9]), 0.0, np.random.default_rng(0)) > 0


def test_many_classes_take_few_draws_each() -> None:
    assert fitted_temperature(np.eye(300), 0.1 * np.eye(300), 0.0, np.random.default_rng(0)) < 1


@pytest.mark.parametrize(
    ("setting", "per_task", "noise"), [("cil", False, 6), ("cil", False, 12), ("til", False, 12), ("til", True, 12)]
)
def test_probabilities_of_the_analytic_learner_are_calibrated(setting: str, per_task: bool, noise: int) -> None:
    stream = TaskStream(load_graph("synthetic", nodes=3000, classes=6, noise=noise, homophily=0.5, degree=4))
    learner = Analytic(features=256, setting=setting, per_task=per_task)
    for task in stream:
        learner.observe(task)
    plain, calibrated, labels = [], [], []
    for task in stream:
        plain.append(softmax(learner.scores(task.graph, task.test, task.index).astype(float)))
        calibrated.append(learner.predict_proba(task.graph, task.test, task.index))
        truth = task.graph.labels
        assert truth is not None
        labels.append(truth[task.test])
    before, after, truth = np.concatenate(plain), np.concatenate(calibrated), np.concatenate(labels)
    assert log_loss(after, truth) < (0.7 if noise == 6 else 0.99) * log_loss(before, truth)
    assert expected_calibration_error(after, truth) < min(0.1, 0.6 * expected_calibration_error(before, truth))


def test_the_temperature_is_that_of_what_is_known_now(toy_stream: TaskStream) -> None:
    learner = Analytic(features=64)
    learner.observe(toy_stream[0])
    first = learner.predict_proba(toy_stream[0].graph)
    assert list(learner.temperatures) == [0]
    learner.observe(toy_stream[1])
    assert learner.temperatures == {}
    assert learner.predict_proba(toy_stream[0].graph)[:, :2].shape == first.shape
    before = dict(learner.temperatures)
    learner.predict_proba(toy_stream[1].graph)
    assert learner.temperatures == before
