from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from delome.paper.experiment import NAMES
from delome.paper.measured import KIND
from delome.persistence.documents import write_document

Cli = Callable[..., Any]
SMALL = "synthetic:nodes=60,classes=4"
QUICK = ("--datasets", SMALL, "--set", "epochs=1", "--jobs", "1", "--quick")


def test_experiments_are_listed(cli: Cli) -> None:
    shown = cli("paper", "list")
    assert shown.code == 0 and all(name in shown.out for name in NAMES)
    assert cli("paper").out == shown.out
    found = json.loads(cli("paper", "list", "--json").out)
    assert list(found) == list(NAMES)
    assert found["time"]["methods"] == ["SSM-uniform", "CaT", "DeLoMe"]


def test_an_experiment_is_run_compared_and_not_run_again(cli: Cli, folder: Path) -> None:
    asked = ("paper", "ablation", *QUICK)
    outcome = cli(*asked)
    assert outcome.code == 0, outcome.err
    assert "lossless × debiased" in outcome.out
    assert "Memory rows per class: 60; the paper has 60 on CoraFull" in outcome.out and "Tasks: 2." in outcome.out
    assert "Seeds: 1; the paper has 5." in outcome.out and "Left out" not in outcome.out  # of two tasks
    assert "numbers as CSV, JSON, Markdown and LaTeX: paper/paper" in outcome.out
    assert "is done" in outcome.err
    again = cli(*asked, "--json")
    assert "is done" not in again.err
    (found,) = json.loads(again.out)["experiments"]
    assert all(row["command"].startswith("delome paper ablation --datasets") for row in found["rows"])
    assert len(found["rows"]) == 6 and all(row["metrics"]["aa"]["seeds"] == 1 for row in found["rows"])
    written = json.loads((folder / "paper/paper/ablation.json").read_text())
    assert written["rows"] == found["rows"]
    assert (folder / "paper/paper/ablation.md").read_text().count("| lossless × debiased") == 1
    assert (folder / "paper/paper/ablation.tex").read_text().count(r"lossless $\times$ debiased") == 1


def test_other_datasets_and_methods_are_added_to_what_was_measured(cli: Cli, folder: Path) -> None:
    other = "synthetic:nodes=80,classes=4"

    def places(found: dict[str, Any]) -> list[tuple[str, str]]:
        return [(row["dataset"], row["label"]) for row in found["rows"]]

    asked = ("paper", "cil", *QUICK[2:], "--json")
    cli(*asked, "--datasets", SMALL, "--methods", "joint,ewc")
    (found,) = json.loads(cli(*asked, "--datasets", SMALL, "--methods", "finetune").out)["experiments"]
    assert places(found) == [(SMALL, "Fine-tune"), (SMALL, "Joint"), (SMALL, "EWC")]
    (found,) = json.loads(cli(*asked, "--datasets", other, "--methods", "joint").out)["experiments"]
    assert places(found) == [(SMALL, "Fine-tune"), (SMALL, "Joint"), (SMALL, "EWC"), (other, "Joint")]
    assert "Not selected, our defaults: EWC." in (folder / "paper/paper/cil.md").read_text()
    assert len((folder / "paper/paper/cil.csv").read_text().splitlines()) == 1 + 2 * 4
    page = (folder / "paper/report.html").read_text()
    assert page.count("delome paper cil") == 3 and "--methods joint,ewc" in page and "--methods finetune" in page


def test_rows_with_other_settings_take_nothing_away(cli: Cli, folder: Path) -> None:
    asked = ("paper", "cil", *QUICK, "--json")
    cli(*asked, "--methods", "finetune,joint")
    (found,) = json.loads(cli(*asked, "--methods", "joint", "--set", "lr=0.1").out)["experiments"]
    assert [(row["label"], row["settings"]) for row in found["rows"]] == [
        ("Fine-tune", ["epochs=1"]),
        ("Joint", ["epochs=1"]),
        ("Joint", ["epochs=1", "lr=0.1"]),
    ]
    page = (folder / "paper/paper/cil.md").read_text()
    assert f"### {SMALL} (epochs=1)" in page and f"### {SMALL} (epochs=1; lr=0.1)" in page
    assert page.count("| Joint") == 2
    assert len((folder / "paper/paper/cil.csv").read_text().splitlines()) == 1 + 2 * 3
    report = (folder / "paper/report.html").read_text()
    assert f"<caption>{SMALL} (epochs=1; lr=0.1)</caption>" in report


def test_what_is_run_quickly_and_wholly_is_run_once_if_the_stream_is_short(cli: Cli) -> None:
    asked = ("paper", "cil", *QUICK[:-1], "--methods", "finetune")
    assert "is done" in cli(*asked, "--quick").err
    again = cli(*asked, "--seeds", "1", "--select", "none")
    assert again.code == 0 and "is done" not in again.err


def test_a_document_of_another_version_is_replaced_with_a_note(cli: Cli, folder: Path) -> None:
    (folder / "paper/paper").mkdir(parents=True)
    older = {"name": "cil", "rows": [{"dataset": "digits", "label": "EWC", "x": None, "notes": [1]}], "notes": [""]}
    write_document(folder / "paper/paper/cil.json", KIND, older)
    outcome = cli("paper", "cil", *QUICK, "--methods", "finetune", "--json")
    assert outcome.code == 0 and "is of another version and is replaced" in outcome.err
    assert [row["label"] for row in outcome.document["experiments"][0]["rows"]] == ["Fine-tune"]


def test_seconds_are_measured_one_run_at_a_time(cli: Cli, folder: Path) -> None:
    asked = (*QUICK[:-1], "--seeds", "1", "--select", "none", "--methods", "ssm-uniform", "--json")
    cli("paper", "cil", *asked)
    expected = json.loads(cli("paper", "cil,time", *asked, "--dry-run").out)
    assert (len(expected["runs"]), expected["finished"]) == (1, 1)
    (found,) = json.loads(cli("paper", "time", *asked).out)["experiments"]
    assert found["rows"][0]["notes"][-1].startswith("Measured one run at a time on ")
    assert found["rows"][0]["notes"][-1].endswith(", 1 thread.")
    assert any("taken to be SSM-uniform" in note for note in found["rows"][0]["notes"])
    (run,) = found["rows"][0]["runs"]
    assert (folder / "paper/time" / run / "seed-0/result.json").exists()


@pytest.mark.parametrize(("percent", "warned"), [(100.0, True), (0.0, False)])
def test_a_busy_machine_is_pointed_out_before_seconds_are_measured(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, percent: float, warned: bool
) -> None:
    monkeypatch.setattr("psutil.cpu_percent", lambda interval: percent)
    threads = torch.get_num_threads()
    outcome = cli("paper", "time", *QUICK, "--methods", "ssm-uniform")
    assert outcome.code == 0 and ("this machine is busy with other things" in outcome.err) == warned
    assert torch.get_num_threads() == threads


def test_help_says_which_budget_a_graph_has(cli: Cli) -> None:
    from delome.datasets.catalogue import DATASETS

    words = " ".join(cli("paper", "--help").out.split())
    assert "20 rows per class on digits, 400 on arxiv, reddit, products" in words
    usual = {name: dataset.budget for name, dataset in DATASETS.items()}
    assert {name for name, budget in usual.items() if budget == 20} == {"digits"}
    assert {name for name, budget in usual.items() if budget == 400} == {"arxiv", "reddit", "products"}
    assert {*usual.values()} == {20, 60, 400}


def test_a_map_is_made_once(cli: Cli, folder: Path) -> None:
    asked = ("paper", "embeddings", "--datasets", "synthetic:nodes=120,classes=4")
    assert cli(*asked).code == 0
    file = folder / "paper/paper/embeddings.json"
    before = json.loads(file.read_text())
    assert {point["panel"] for point in before["points"]} == {
        "nodes of the task",
        "random nodes",
        "SSM-uniform",
        "DeLoMe",
    }
    again = cli(*asked)
    assert again.code == 0 and "training on the first task" not in again.err
    assert json.loads(file.read_text())["points"] == before["points"]
    other = cli(*asked, "--set", "columns=2", "--json")
    assert "training on the first task" in other.err
    assert [row["settings"] for row in other.document["experiments"][0]["rows"]] == [[]] * 3 + [["columns=2"]] * 3
    after = json.loads(file.read_text())["points"]
    assert after[: len(before["points"])] == before["points"] and after[-1]["settings"] == ["columns=2"]


def test_a_map_says_that_it_has_neither_runs_nor_seeds(cli: Cli) -> None:
    asked = ("paper", "embeddings", "--datasets", SMALL, "--dry-run")
    outcome = cli(*asked)
    assert outcome.out.startswith("0 runs to do") and "embeddings has no runs to count: its map takes" in outcome.err
    assert "do not change it" not in outcome.err
    for option in (("--seeds", "3"), ("--select", "honest")):
        assert "embeddings is one map without runs: --seeds and --select do not change it" in cli(*asked, *option).err
    assert "embeddings" not in cli("paper", "cil", *asked[2:], "--seeds", "1", "--methods", "joint").err


def test_nothing_is_run_when_asked_what_would_be(cli: Cli, folder: Path) -> None:
    outcome = cli("paper", "cil,til", *QUICK, "--methods", "finetune,hpns,ewc", "--dry-run", "--json")
    found = json.loads(outcome.out)
    assert len(found["runs"]) == 5 and found["candidates"] == 0  # Fine-tune and EWC twice, HPNs in TIL
    assert not (folder / "paper").exists()
    selected = [argument for argument in QUICK if argument != "--quick"]
    found = json.loads(cli("paper", "cil", *selected, "--seeds", "1", "--methods", "ewc", "--dry-run", "--json").out)
    assert found["candidates"] == 4
    chosen = cli("paper", "cil", *QUICK, "--methods", "ewc", "--select", "honest", "--dry-run", "--json")
    assert json.loads(chosen.out)["candidates"] == 4


def test_a_search_space_can_be_given(cli: Cli) -> None:
    asked = ("paper", "cil", *QUICK, "--methods", "ewc,finetune", "--dry-run", "--json")
    found = cli(*asked, "--select", "strength=1,2,3", "--select", "benchmark").document
    assert found["candidates"] == 3


def test_a_plan_is_listed_without_graphs_that_are_not_here(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any, **__: Any) -> None:
        raise AssertionError("a dry run downloads nothing")

    monkeypatch.setattr("delome.datasets.sources.published.download", refused)
    asked = ("paper", "cil,ablation", "--methods", "finetune,ewc", "--datasets", f"corafull,{SMALL}", "--quick")
    found = cli(*asked, "--dry-run", "--json", "--data-root", str(tmp_path / "empty")).document
    assert [*found["not_estimated"]] == ["corafull"] and len(found["runs"]) == 2
    assert [run.split("-")[1] for run in found["not_estimated"]["corafull"]] == ["finetune", "ewc"]
    words = cli(*asked, "--dry-run", "--data-root", str(tmp_path / "empty")).out
    assert words.count(": not estimated\n") == 2 and "2 runs on corafull not estimated and not in this sum" in words
    selected = cli(*asked[:-1], "--seeds", "2", "--dry-run", "--json", "--data-root", str(tmp_path / "empty")).document
    assert len(selected["not_estimated"]["corafull"]) == 2 + 4 * 2 + 2  # EWC has four candidates


def test_selection_is_named_beside_a_number(cli: Cli) -> None:
    asked = ("paper", "cil", *QUICK[:-1], "--seeds", "1", "--methods", "lwf", "--json")
    (found,) = json.loads(cli(*asked, "--select", "benchmark").out)["experiments"]
    assert found["rows"][0]["selection"].startswith("benchmark: strength")
    (found,) = json.loads(cli(*asked, "--select", "none").out)["experiments"]
    assert found["rows"][0]["selection"] == ""


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("cill",), "unknown experiment 'cill': did you mean 'cil'?"),
        (("cil", "--methods", "hpns"), "unknown method in experiment cil 'hpns'"),
        (("cil,til", "--methods", "nothing"), "no experiment has a method 'nothing'"),
        (("cil", "--datasets", "nowhere"), "unknown dataset 'nowhere'"),
        (("cil", "--set", "epoch=3", "--datasets", SMALL), "no method of these experiments has a parameter 'epoch'"),
        (("cil", "--select", "best"), "unknown protocol of selection 'best'"),
        (("cil", "--seeds", "0", "--datasets", SMALL), "seeds must be at least 1, not 0"),
        (("cil", "--jobs", "0", "--datasets", SMALL, "--dry-run"), "jobs must be at least 1, not 0"),
    ],
)
def test_what_cannot_be_run_is_refused_in_a_sentence(cli: Cli, folder: Path, arguments: Any, sentence: str) -> None:
    outcome = cli("paper", *arguments)
    assert outcome.code == 2 and sentence in outcome.err and outcome.err.count("\n") == 1
    assert not (folder / "paper").exists()
