"""Tasks scored together, and predictions in portions: the same as one by one and all at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from delome import Graph, Learner, TaskStream, load_graph
from delome.learning import METHODS, scoring
from delome.metrics import Score

STREAM = TaskStream(load_graph("synthetic", nodes=300, classes=10, noise=8.0, degree=2))
CASES: dict[str, dict[str, Any]] = {
    "finetune": {"epochs": 3},
    "finetune, til": {"epochs": 3, "setting": "til"},
    "finetune, gcn": {"epochs": 3, "backbone": "gcn"},
    "finetune, gat, til": {"epochs": 3, "backbone": "gat", "setting": "til"},
    "delome": {"epochs": 3, "budget": 2},
    "analytic": {"features": 64},
    "analytic, til": {"features": 64, "setting": "til"},
    "analytic, per task": {"features": 64, "setting": "til", "per_task": True},
    "hpns": {"epochs": 2},
}


@pytest.fixture(params=CASES, scope="module")
def learned(request: pytest.FixtureRequest) -> Learner:
    from delome.parameters import filled
    from delome.registry import Registry

    kind = METHODS.find(request.param.partition(",")[0])
    found: Learner = kind(**filled(kind, CASES[request.param], Registry.importable))
    for task in STREAM:
        found.observe(task)
    return found


def count_rows(learned: Learner, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """From now on the number of rows of each call of a learner's logits."""
    counts: list[int] = []
    logits = learned.logits

    def counted(inputs: Any, task: int) -> torch.Tensor:
        found = logits(inputs, task)
        counts.append(len(found))
        return found

    monkeypatch.setattr(learned, "logits", counted)
    return counts


@pytest.mark.parametrize("split", ["test", "val"])
def test_tasks_that_are_scored_together_have_the_accuracies_of_each_alone(learned: Learner, split: str) -> None:
    alone = [learned.score([task], split)[0] for task in STREAM]
    assert learned.score(STREAM, split) == alone
    assert len({score.balanced for score in alone}) > 1


def test_tasks_of_rows_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    found = METHODS.find("finetune")(epochs=1)
    for task in STREAM:
        found.observe(task)
    read = count_rows(found, monkeypatch)
    found.score(STREAM)
    assert read == [sum(len(task.test) for task in STREAM)]
    monkeypatch.setattr(scoring, "ROWS_TOGETHER", 2 * len(STREAM[0].test))
    found.score(STREAM)
    assert len(read) == 1 + 3  # of five tasks two at a time


def test_a_subclass_with_logits_of_its_own_is_asked_about_one_task_at_a_time() -> None:
    class OfATask(METHODS.find("finetune")):  # type: ignore[misc]
        def logits(self, inputs: Any, task: int) -> torch.Tensor:
            logits = super().logits(inputs, task)
            wanted = torch.tensor(self.columns.tasks[task])
            return torch.full_like(logits, -1e9).index_copy_(1, wanted, logits[:, wanted])

    own = OfATask(epochs=3)
    for task in STREAM:
        own.observe(task)
    assert own.evaluate(STREAM) == [own.evaluate([task])[0] for task in STREAM]
    assert min(own.evaluate(STREAM)) > 0


def test_predictions_in_portions_are_those_of_all_nodes_at_once(
    learned: Learner, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, task = STREAM[1].graph, 1
    scores = learned.scores(graph, task=task)
    labels, probabilities = learned.predict(graph, task=task), learned.predict_proba(graph, task=task)
    whole = learned.predict_with_probability(graph, task=task)
    score = learned.score(STREAM)
    read = count_rows(learned, monkeypatch)
    monkeypatch.setattr(scoring, "SCORES_AT_ONCE", 7 * learned.columns.seen + 1)
    np.testing.assert_allclose(learned.scores(graph, task=task), scores, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(learned.predict(graph, task=task), labels)
    np.testing.assert_allclose(learned.predict_proba(graph, task=task), probabilities, rtol=1e-4, atol=1e-5)
    for found, wanted in zip(learned.predict_with_probability(graph, task=task), whole, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    assert learned.score(STREAM) == score
    assert max(read) == 7


def test_the_probability_of_a_label_is_that_of_the_table(learned: Learner) -> None:
    graph = STREAM[2].graph
    labels, probabilities = learned.predict_with_probability(graph, task=2)
    np.testing.assert_array_equal(labels, learned.predict(graph, task=2))
    table = learned.predict_proba(graph, task=2)
    np.testing.assert_array_equal(probabilities, table[np.arange(len(labels)), learned.known.columns_of(labels)])
    nobody = learned.predict_with_probability(graph, nodes=[], task=2)
    assert [len(each) for each in nobody] == [0, 0]


def test_scores_of_each_task_are_those_of_the_task_alone() -> None:
    rng = np.random.default_rng(0)
    sizes = [1, 40, 3, 200]
    labels, predicted = (rng.integers(17, size=sum(sizes)) for _ in range(2))
    starts = np.cumsum(sizes)[:-1]
    alone = [Score.of(*each) for each in zip(np.split(predicted, starts), np.split(labels, starts), strict=True)]
    assert Score.of_each(predicted, labels, sizes) == alone
    text = np.array([f"class {number:02}" for number in range(17)])
    assert Score.of_each(text[predicted], text[labels], sizes) == alone


def test_a_graph_with_many_classes_is_classified_in_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "SCORES_AT_ONCE", 1000)
    found = METHODS.find("finetune")(epochs=1)
    count = 400
    edges = np.stack([np.arange(count), np.roll(np.arange(count), 1)])
    graph = Graph(edges, np.random.default_rng(0).standard_normal((count, 3)), np.arange(count))
    found.observe(graph)
    whole = found.predict(graph)
    monkeypatch.undo()
    np.testing.assert_array_equal(found.predict(graph), whole)
