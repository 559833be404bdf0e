from __future__ import annotations

import json
import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import delome

Cli = Callable[..., Any]
SMALL = "synthetic:nodes=60,classes=4"
RUN = ("run", "--dataset", SMALL, "--epochs", "1", "--method")


def test_a_run_prints_where_its_report_is(cli: Cli, folder: Path) -> None:
    outcome = cli(*RUN, "finetune", "--out", "r")
    assert outcome.out.endswith("report: r/report.html\n")
    assert (folder / "r/report.html").is_file() and not (folder / "r/.index.json").exists()
    assert cli(*RUN, "finetune", "--out", "r", "--json").document["report"] == "r/report.html"


def test_several_runs_have_one_report(cli: Cli, folder: Path) -> None:
    outcome = cli(*RUN, "finetune,joint", "--jobs", "1")
    assert outcome.out.endswith("run folders: runs\nreport: runs/report.html\n")
    assert [file.parent.name for file in folder.rglob("report.html")] == ["runs"]
    (folder / "plan.toml").write_text(f'dataset = "{SMALL}"\nmethod = "finetune"\nepochs = 1\n')
    assert cli("sweep", "plan.toml", "--json").document["report"] == "runs/report.html"


def test_an_experiment_leaves_a_report(cli: Cli, folder: Path) -> None:
    asked = ("paper", "time", "--datasets", SMALL, "--methods", "delome", "--quick", "--set", "epochs=1", "--jobs", "1")
    assert cli(*asked).out.endswith(
        "numbers as CSV, JSON, Markdown and LaTeX: paper/paper\nreport: paper/report.html\n"
    )
    assert cli(*asked, "--json").document["report"] == "paper/report.html"
    assert "Table 3" in (folder / "paper/report.html").read_text()


def test_experiments_of_several_folders_are_one_with_a_table_for_each_way_of_measuring(cli: Cli, folder: Path) -> None:
    asked = ("paper", "cil", "--datasets", SMALL, "--quick", "--jobs", "1", "--set")
    cli(*asked, "epochs=1", "--methods", "finetune", "--out", "a")
    cli(*asked, "epochs=1", "--methods", "joint", "--out", "b")
    cli(*asked, "epochs=2", "--methods", "joint", "--out", "c")
    assert cli("report", "a", "b", "c", "--out", "all.html", "--json").document["experiments"] == ["cil"]
    page = (folder / "all.html").read_text()
    assert [f"<caption>{SMALL} (epochs={epochs})</caption>" in page for epochs in (1, 2, 3)] == [True, True, False]


def test_a_report_is_written_where_it_is_wanted(cli: Cli, folder: Path) -> None:
    for method in ("finetune", "joint"):
        cli(*RUN, method)
    assert cli("report").out == "report: runs/report.html\n"
    one, two = sorted((folder / "runs").glob("synthetic*"))
    found = cli("report", str(one), str(two), "--out", "both.html", "--figures", "drawn", "--json").document
    assert (found["report"], found["runs"], found["experiments"]) == ("both.html", 2, [])
    assert all((folder / figure).is_file() for figure in found["figures"]) and len(found["figures"]) == 12
    assert "report: x.html, 4 figures: drawn" in cli("report", str(one), "--out", "x.html", "--figures", "drawn").out
    same = delome.report(one, two, out=folder / "same.html")
    assert (same.runs, same.file) == (2, folder / "same.html")
    assert (folder / "same.html").stat().st_size == pytest.approx((folder / "both.html").stat().st_size, abs=500)


def test_a_report_is_opened_in_a_browser_if_there_is_one(
    cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli(*RUN, "finetune", "--out", "r")
    shown: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda address: not shown.append(address))  # type: ignore[func-returns-value]
    assert cli("report", "r", "--open").err == ""
    assert shown == [(folder / "r/report.html").as_uri()]
    monkeypatch.setattr(webbrowser, "open", lambda address: False)
    outcome = cli("report", "r", "--open")
    assert (outcome.code, outcome.err) == (0, "delome: note: there is no browser here: open r/report.html in one\n")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("nowhere",), "'nowhere' is not a folder: give folders of runs or sweeps"),
        (
            ("empty",),
            "there are no finished runs or experiments below 'empty': 'delome run' and 'delome paper' make some",
        ),
        (("r", "--out", "no/x.html"), "cannot write 'no/x.html': No such file or directory"),
        (("r", "--out", "empty"), "cannot write 'empty': it is not a file"),
        (("r", "--figures", "r/config.json"), "cannot write 'r/config.json': there is a file where a folder should be"),
    ],
    ids=lambda part: part[-1] if isinstance(part, tuple) else "",
)
def test_what_cannot_be_done_is_a_sentence(words: tuple[str, ...], sentence: str, cli: Cli, folder: Path) -> None:
    (folder / "empty").mkdir()
    cli(*RUN, "finetune", "--out", "r")
    outcome = cli("report", *words)
    assert (outcome.code, outcome.out, outcome.err) == (2, "", f"delome: {sentence}\n")
    assert json.loads(cli("report", *words, "--json").err)["exit_code"] == 2


def test_a_damaged_result_is_left_out_with_a_note(cli: Cli, folder: Path) -> None:
    cli(*RUN, "finetune,joint", "--jobs", "1")
    damaged = next((folder / "runs").glob("*finetune*/seed-0/result.json"))
    damaged.write_text(damaged.read_text()[:-50])
    outcome = cli("report", "--json")
    assert outcome.document["runs"] == 1 and "it is left out" in outcome.err
