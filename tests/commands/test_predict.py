"""`delome.predict`: labels of a graph's nodes, by a saved model."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import delome
from delome import DeLoMe, FineTune, Graph
from delome.commands.predict import NOT_AS_A_WHOLE
from delome.errors import ParameterError, PersistenceError
from delome.metrics import Score

Files = Callable[[Path], dict[str, bytes]]
Make = Callable[..., Graph]


def saved(*graphs: Graph, learner: Any = None) -> Any:
    learner = FineTune(epochs=20, hidden=8) if learner is None else learner
    for each in graphs:
        learner.observe(each)
    learner.save("m")
    return learner


def test_labels_names_and_probabilities_are_those_of_the_learner(folder: Path, graph: Make) -> None:
    learner = saved(graph(0, 2, class_names=["ape", "bee", "cat"]))
    new = graph(0, 2, seed=1)
    found = delome.predict("m", new)
    assert found.labels.tolist() == found.columns["label"] == learner.predict(new).tolist()
    assert found.columns["node"] == list(range(24))
    assert found.columns["name"] == [{0: "ape", 2: "cat"}[label] for label in found.columns["label"]]
    np.testing.assert_allclose(found.columns["probability"], learner.predict_proba(new).max(axis=1), atol=1e-6)


def test_accuracy_is_that_of_known_labels_that_were_not_learned(folder: Path, graph: Make) -> None:
    train = np.arange(24) % 2 == 0
    masked = graph(0, 1, 9, train_mask=train)
    truth = masked.user_labels
    assert truth is not None
    saved(graph(0, 1, seed=1), masked)
    found = delome.predict("m", masked)
    assert found.accuracy == Score.of(found.labels[~train], truth[~train])
    assert (found.judged_nodes, found.judged) == (
        12, "12 nodes with known labels outside the train mask; those inside were learned"
    )  # fmt: skip
    other = delome.predict("m", graph(1, 5, seed=2))
    assert (other.judged_nodes, other.judged) == (
        12,
        f"12 nodes with known labels; {NOT_AS_A_WHOLE}",
    )
    unknown = delome.predict("m", graph(0, 1, 9).hidden())
    assert (unknown.accuracy, unknown.judged_nodes, unknown.judged) == (None, 0, "")


def test_predictions_are_written_as_csv_in_place_of_a_file_that_is_there(folder: Path, graph: Make) -> None:
    saved(graph(0, 1))
    Path("deep").mkdir()
    Path("deep/p.csv").write_text("old")
    found = delome.predict("m", graph(0, 1), out="deep/p.csv")
    assert Path("deep/p.csv").read_text() == found.csv()
    header, *rows = csv.reader(found.csv().splitlines())
    assert header == ["node", "label", "name", "probability"]
    assert [int(row[1]) for row in rows] == found.labels.tolist()
    assert list(Path("deep").iterdir()) == [Path("deep/p.csv")]


@pytest.mark.parametrize("out", ["m/p.csv", "m/manifest.json", "r/p.csv", "r/seed-0/model/p.csv"])
def test_predictions_are_not_written_into_a_model_or_a_run(
    out: str, folder: Path, graph: Make, files_of: Files
) -> None:
    saved(graph(0, 1))
    delome.run("synthetic:nodes=60,classes=4", "finetune", epochs=1, out="r")
    before = files_of(folder)
    with pytest.raises(ParameterError, match=f"'{out}' lies in "):
        delome.predict("m", graph(0, 1), out=out)
    assert files_of(folder) == before


def test_nothing_is_changed_or_printed(
    folder: Path, graph: Make, files_of: Files, capfd: pytest.CaptureFixture[str]
) -> None:
    saved(graph(0, 1))
    before = files_of(folder)
    first, second = (delome.predict("m", graph(0, 1, seed=3)) for _ in range(2))
    assert first.csv() == second.csv()
    assert (files_of(folder), capfd.readouterr()) == (before, ("", ""))


@pytest.mark.parametrize("backbone", ["sgc", "gcn", "gat"])
def test_a_model_of_every_backbone_predicts_as_before_it_was_saved(backbone: str, folder: Path, graph: Make) -> None:
    learner = saved(graph(0, 1), graph(1, 2), learner=DeLoMe(backbone=backbone, budget=3, epochs=5, hidden=8))
    assert delome.predict("m", graph(0, 2)).labels.tolist() == learner.predict(graph(0, 2)).tolist()


def test_a_task_incremental_model_is_asked_within_a_task(folder: Path, graph: Make) -> None:
    saved(graph(0, 1), graph(2, 3), learner=FineTune(setting="til", epochs=5))
    assert set(delome.predict("m", graph(0, 1), task=0).labels) <= {0, 1}
    assert set(delome.predict("m", graph(0, 1), task=1).labels) <= {2, 3}
    with pytest.raises(ParameterError, match="give its index, 0 to 1"):
        delome.predict("m", graph(0, 1), out="p.csv")
    assert not Path("p.csv").exists()


def test_a_graph_may_be_given_by_name(folder: Path, write_npz: Callable[..., Path]) -> None:
    name = f"file:{write_npz()}"
    saved(delome.load_graph(name))
    assert delome.predict("m", name).csv() == delome.predict("m", delome.load_graph(name)).csv()


def test_a_folder_without_a_model_is_refused(folder: Path, graph: Make) -> None:
    with pytest.raises(PersistenceError, match="'absent' holds no saved learner of delome"):
        delome.predict("absent", graph(0, 1))
    assert list(folder.iterdir()) == []


def test_a_model_of_a_method_of_ones_own_predicts_if_the_method_is_named(
    folder: Path, graph: Make, mine: str, cli: Callable[..., Any], write_npz: Callable[..., Path]
) -> None:
    file = f"file:{write_npz()}"
    delome.learn("m", file, method=mine, assignments=["epochs=2"])
    with pytest.raises(PersistenceError, match=f"method '{mine}' is not one of delome's"):
        delome.predict("m", file)
    from my_methods import Mine, Small  # type: ignore[import-not-found]

    found = delome.predict("m", file, methods=[Mine])
    assert delome.load("m", methods=[Mine]).backbone == Small()  # type: ignore[attr-defined]
    assert cli("predict", "--model", "m", "--graph", file, "--method", mine).out == found.csv()
    refused = cli("predict", "--model", "m", "--graph", file)
    assert (refused.code, refused.out) == (2, "") and f"--method {mine}" in refused.err


def test_predictions_do_not_take_the_place_of_the_graph(write_npz: Callable[..., Path], tmp_path: Path) -> None:
    graph = write_npz("day.npz")
    before = graph.read_bytes()
    delome.learn(tmp_path / "model", f"file:{graph}", method="finetune", assignments=["epochs=1"])
    with pytest.raises(ParameterError, match="is the graph itself: choose another place for --out"):
        delome.predict(tmp_path / "model", f"file:{graph},undirected=false", out=graph)
    assert graph.read_bytes() == before
