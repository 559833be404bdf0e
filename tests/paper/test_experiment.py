from __future__ import annotations

import csv
from pathlib import Path

import pytest

from delome.errors import ParameterError
from delome.paper.experiment import NAMES, load_experiment
from delome.paper.reported import notes, reported_numbers

TABLES = Path(__file__).parents[3] / "shared/paper/results.csv"


@pytest.mark.parametrize("name", NAMES)
def test_every_experiment_is_one_that_can_be_run(name: str) -> None:
    experiment = load_experiment(name)
    assert experiment.title and experiment.place and experiment.metrics and experiment.rows
    cells = experiment.asked(["digits", "file:graph.npz"]).cells()
    assert (cells == []) == (experiment.kind == "map")
    assert all(cell.config.parameters["setting"] == experiment.options["setting"] for cell in cells)
    assert all(cell.config.seeds == [0, 1, 2, 3, 4] for cell in cells)
    backbones = {cell.config.backbone for cell in cells} - {None}
    assert backbones <= {experiment.options["backbone"]}


def test_every_reported_number_belongs_to_a_row_of_an_experiment() -> None:
    for experiment, dataset, row, metric in reported_numbers():
        found = load_experiment(experiment)
        assert dataset in found.datasets and metric in found.metrics
        assert [each.beyond for each in found.rows if each.label == row] == [False]


def test_every_note_names_what_there_is() -> None:
    experiments = [load_experiment(name) for name in NAMES]
    labels = {row.label for each in experiments for row in each.rows}
    datasets = {name for each in experiments for name in each.datasets}
    for note in notes():
        assert set(note.experiments) <= set(NAMES)
        assert set(note.labels) <= labels and set(note.datasets) <= datasets


def test_reported_numbers_are_those_of_the_papers_tables() -> None:
    if not TABLES.exists():
        pytest.skip(f"the paper's tables are not at {TABLES}")
    found = reported_numbers()
    names = {"CoraFull": "corafull", "Arxiv": "arxiv", "Reddit": "reddit", "Products": "products"}
    expected = {}
    with TABLES.open() as file:
        for line in csv.DictReader(file):
            experiment = line["setting"] + ("" if line["backbone"] == "SGC" else "-gcn")
            for metric in ("aa", "af"):
                if line[metric]:
                    key = experiment, names[line["dataset"]], line["method"], metric
                    expected[key] = float(line[metric]), float(line[f"{metric}_std"])
    tables = {
        key: (each.value, each.std) for key, each in found.items() if key[0] in ("cil", "til", "cil-gcn", "til-gcn")
    }
    assert tables == expected and len(expected) > 400
    assert found["ablation", "arxiv", "lossless × debiased", "af"].value == 5.1
    assert found["time", "products", "CaT", "memory_seconds"].value == 28.94


def test_delome_is_run_as_in_the_paper_and_as_we_would() -> None:
    configs = {cell.row.label: cell.config for cell in load_experiment("cil").asked(["digits"]).cells()}
    assert configs["DeLoMe"].parameters["loss"]["prior"] == "rows"
    assert configs["DeLoMe (our defaults)"].parameters["loss"]["prior"] == "weights"


def test_budgets_are_those_of_the_paper_and_of_other_graphs() -> None:
    budgets = {}
    for dataset in ("corafull", "arxiv", "digits"):
        cells = load_experiment("budget-cil").asked([dataset], ["delome"]).cells()
        budgets[dataset] = [cell.config.budget for cell in cells]
    assert budgets["corafull"] == budgets["digits"] == [5, 10, 15, 30, 60]
    assert budgets["arxiv"] == [50, 100, 200, 300, 400]
    joint = load_experiment("budget-cil").asked(["digits"], ["joint"]).cells()
    assert len(joint) == 5 and len({cell.config.digest for cell in joint}) == 1


def test_what_experiments_share_is_one_run() -> None:
    of_budgets = {cell.config.digest for cell in load_experiment("budget-cil").asked(["arxiv"]).cells()}
    of_imbalance = {cell.config.digest for cell in load_experiment("imbalance").asked(["arxiv"]).cells()}
    assert of_imbalance < of_budgets


def test_a_quick_experiment_says_what_it_leaves_out() -> None:
    quick = load_experiment("budget-cil").asked(["digits"], ["delome"], quick=True)
    configs = [cell.config for cell in quick.cells()]
    assert [config.budget for config in configs] == [5, 15, 60]
    assert all(config.seeds == [0] and config.tasks == 5 for config in configs)
    assert quick.left_out_of("digits") == ["tasks after the first 5", "all but 3 budgets"]
    assert load_experiment("budget-cil").asked(["digits"]).left_out_of("digits") == []
    two = load_experiment("cil").asked(["digits"], seeds=2, quick=True)
    assert two.cells()[0].config.seeds == [0, 1]


def test_a_stream_without_more_tasks_is_run_whole() -> None:
    whole, quick = load_experiment("cil"), load_experiment("cil").asked(["digits", "cora_ml"], ["joint"], quick=True)
    cut = quick.with_lengths({"digits": 5, "cora_ml": 6})
    assert [cell.config.tasks for cell in cut.cells()] == [None, 5]
    assert [cut.left_out_of(dataset) for dataset in ("digits", "cora_ml")] == [[], ["tasks after the first 5"]]
    (same,) = whole.asked(["digits"], ["joint"]).cells()
    assert cut.cells()[0].config.digest == same.config.digest


def test_rows_are_chosen_by_method_or_label() -> None:
    experiment = load_experiment("cil")
    assert [row.label for row in experiment.asked(methods=["DeLoMe"]).rows] == ["DeLoMe"]
    both = experiment.asked(methods=["DeLoMe (our defaults)", "DeLoMe"])
    assert [row.label for row in both.rows] == ["DeLoMe", "DeLoMe (our defaults)"]
    assert [row.label for row in experiment.asked(methods=["delome"]).rows] == ["DeLoMe", "DeLoMe (our defaults)"]
    assert [row.label for row in experiment.asked(methods=["ewc", "Fine-TUNE"]).rows] == ["Fine-tune", "EWC"]
    with pytest.raises(ParameterError, match="unknown method in experiment cil 'hpn") as refused:
        experiment.asked(methods=["hpns"])
    assert str(refused.value).count("analytic") == 1


def test_parameters_are_set_where_a_method_has_them() -> None:
    cells = load_experiment("cil").asked(["digits"], ["analytic", "finetune"], assignments=["epochs=7"]).cells()
    assert {cell.row.label: cell.config.parameters.get("epochs") for cell in cells} == {
        "Fine-tune": 7,
        "analytic": None,
    }


def test_an_experiment_that_there_is_not_is_refused() -> None:
    with pytest.raises(ParameterError, match="unknown experiment 'cill': did you mean 'cil'"):
        load_experiment("cill")
