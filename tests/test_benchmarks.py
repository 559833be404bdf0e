"""Benchmarks are commands, but what they write into documents is tested."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def benchmark(name):
    """A script as a module."""
    specification = importlib.util.spec_from_file_location(f"{name}_benchmark", ROOT / f"benchmarks/{name}.py")
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.fixture
def methods(monkeypatch):
    module = benchmark("methods")

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["methods.py", *map(str, arguments)])
        module.main()

    return run


def test_tables_are_written_between_their_markers_from_run_folders(methods, tmp_path):
    page = tmp_path / "page.md"
    sections = [f"## {name}\n<!-- {name}: made -->\n<!-- end -->\nafter {name}\n" for name in ("digits", "cora_ml")]
    page.write_text("".join(sections) + "<!-- amazon_computers: made -->\nold\n<!-- end -->\n")
    runs, speed = tmp_path / "runs", tmp_path / "speed"
    for folder, train in ((runs, 8.0), (speed, 2.0)):
        for name, factor in (("digits-cil-finetune", 1), ("digits-cil-ewc", 3)):
            place = folder / name / "seed-0"
            place.mkdir(parents=True)
            result = {"aa": 19.72, "af": -100.0, "seconds": {"train": factor * train, "evaluate": 9.0}}
            (place / "result.json").write_text(json.dumps(result | {"memory": {"bytes": 1234}}))
    for _ in range(2):  # writing again replaces
        methods("table", "--runs", runs, "--speed-runs", speed, "--page", page)
        text = page.read_text()
        assert text.count("| `ewc` | 19.7 | −100.0 | – | – | 24 | 3.0 | – | 1,234 |") == 1
        assert text.count("`finetune`") == 1
        assert "after digits\n## cora_ml" in text and "after cora_ml" in text and "old" not in text


def test_a_page_without_markers_is_refused(methods, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("nothing")
    with pytest.raises(SystemExit, match="no markers for digits"):
        methods("table", "--runs", tmp_path, "--page", page)


def test_runs_are_made_once(methods, tmp_path, capsys):
    arguments = ("speed", "--speed-runs", tmp_path, "--dataset", "digits", "--method", "finetune", "analytic")
    methods(*arguments)
    assert "digits-cil-finetune: AA" in capsys.readouterr().err
    methods(*arguments)
    assert capsys.readouterr().err == ""


@pytest.mark.slow
def test_whole_runs_are_compared_with_the_printed_algorithm():
    command = [sys.executable, str(ROOT / "benchmarks/side_by_side.py"), "--quick", "--json"]
    found = json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)
    rows = found["runs"]
    assert list(rows) == ["literal", "passes", "drawn", "columns", "bytes"]
    assert rows["literal"]["times_literal"] == rows["passes"]["times_passes"] == 1
    assert all(rows[name]["times_literal"] > 1 for name in ("passes", "drawn", "columns", "bytes"))
    assert all(rows[name]["seconds"]["train"] > 0 and rows[name]["bytes"] > 0 for name in rows)


def test_what_whole_runs_came_to_is_put_into_tables(tmp_path):
    figures = {"validation_aa": [90.0, 0.5], "aa": [91.0, 0.25], "bytes": 100, "times_passes": 1, "times_literal": 2}
    runs = {name: figures | {"seconds": {"memory": 3}} for name in ("passes", "drawn", "columns", "bytes")}
    runs["literal"] = {"seconds": {"memory": 30}}
    runs["drawn"] = runs["drawn"] | {"bytes": 400, "times_passes": 4, "times_literal": 8}
    file = tmp_path / "kept.jsonl"
    file.write_text(json.dumps({"dataset": "file:data/cora70.npz", "runs": runs}) + "\n")
    command = [sys.executable, str(ROOT / "benchmarks/side_by_side.py"), "--tables", str(file)]
    lines = subprocess.run(command, capture_output=True, check=True, text=True).stdout.splitlines()
    assert lines[2] == "| cora70 | 90.00 ± 0.50 | 90.00 ± 0.50 | 90.00 ± 0.50 | 90.00 ± 0.50 |"
    assert lines[-1] == "| cora70 | 10.0 | 2.0 | 8.0 | 4.0 | 1.0 | 4.0 |"


@pytest.fixture
def reported():
    return benchmark("reported")


def test_measured_numbers_are_written_between_their_markers(reported, tmp_path):
    kept, page = tmp_path / "kept", tmp_path / "page.md"
    (tmp_path / "run/paper").mkdir(parents=True)
    (tmp_path / "run/paper/cil.csv").write_text(
        "dataset,row,x,metric,measured,std,seeds,reported,reported_std,selection\n"
        "file:data/cora70.npz,EWC,,aa,12.34,0.5,3,52.6,8.2,\n"
        "file:data/cora70.npz,EWC,,af,-3.0,,1,,,\n"
        "digits,EWC,,aa,20.0,,1,,,\n"
        "digits,DeLoMe,,aa,,,0,,,\n"
    )
    reported.keep(tmp_path / "run", kept, "mine")
    page.write_text("before\n<!-- mine/cil -->\nold\n<!-- end -->\nafter\n<!-- mine/cil af -->\n<!-- end -->\n")
    for _ in range(2):  # writing again replaces
        reported.write(page, kept)
        text = page.read_text()
        assert "| EWC | 12.3 ± 0.5 | 20.0 |\n| DeLoMe | – | – |\n<!-- end -->\nafter" in text
        assert "| EWC | −3.0 |\n<!-- end -->" in text
        assert "|  | cora70 | digits |" in text and "old" not in text
    # what is measured again takes the place of what was, and the rest stays
    lines = (tmp_path / "run/paper/cil.csv").read_text().splitlines()
    (tmp_path / "run/paper/cil.csv").write_text(f"{lines[0]}\ndigits,EWC,,aa,30.0,1.0,3,,,\n")
    reported.keep(tmp_path / "run", kept, "mine")
    reported.write(page, kept)
    assert "| EWC | 12.3 ± 0.5 | 30.0 ± 1.0 |\n| DeLoMe | – | – |\n<!-- end -->" in page.read_text()
    # files of versions that write more or fewer columns are kept together
    for head, line in (
        (f"{lines[0]},within", "digits,EWC,,aa,31.0,,1,,,,yes"),
        (lines[0], "digits,MAS,,aa,32.0,,1,,,"),
    ):
        (tmp_path / "run/paper/cil.csv").write_text(f"{head}\n{line}\n")
        reported.keep(tmp_path / "run", kept, "mine")
    reported.write(page, kept)
    assert "| EWC | 12.3 ± 0.5 | 31.0 |\n| DeLoMe | – | – |\n| MAS | – | 32.0 |" in page.read_text()
    assert [line["within"] for line in reported.read(kept / "mine/cil.csv")].count("yes") == 1


def test_a_curve_is_a_table_of_its_places_for_each_dataset(reported):
    lines = [
        {"dataset": dataset, "row": row, "x": x, "metric": "aa", "measured": measured, "std": ""}
        for dataset, row, x, measured in [
            ("digits", "CaT", "5", "1"),
            ("digits", "CaT", "82.46", "2"),
            ("b", "A", "5", "3"),
        ]
    ]
    assert reported.table(lines, "aa") == (
        "| digits | 5 | 82.5 |\n|---|---:|---:|\n| CaT | 1.0 | 2.0 |\n\n| b | 5 |\n|---|---:|\n| A | 3.0 |\n"
    )


def test_the_page_of_measured_numbers_is_that_of_the_files_that_are_kept(reported, tmp_path):
    page, copy = ROOT / "docs/reported-and-measured.md", tmp_path / "page.md"
    copy.write_text(page.read_text())
    reported.write(copy, ROOT / "benchmarks/results/paper")
    assert copy.read_text() == page.read_text()


def test_the_tables_of_selections_are_those_of_the_lines_that_are_kept(tmp_path):
    selections = benchmark("selections")
    page, copy = ROOT / "docs/methods.md", tmp_path / "page.md"
    copy.write_text(page.read_text())
    lines = [json.loads(line) for line in (ROOT / "benchmarks/results/selections.jsonl").read_text().splitlines()]
    selections.write(copy, lines)
    assert copy.read_text() == page.read_text() and page.read_text().count("<!-- selections: ") == 3


def test_candidates_are_compared_by_their_mean_over_graphs_and_settings():
    def line(graph, scores):
        candidates = [
            {"chosen": {"strength": strength}, "validation_aa": own}
            for strength, own in zip((1.0, 1e6), scores, strict=True)
        ]
        return {"protocol": "honest", "dataset": graph, "method": "ewc", "candidates": candidates}

    means = benchmark("selections").means([line("a", ([10.0, 30.0], [50.0])), line("b", ([40.0], [20.0]))], "honest")
    assert means.endswith("| `ewc` | strength 1: 30.0; **strength 1000000: 35.0** |")


def test_the_tables_of_protocols_are_those_of_the_lines_that_are_kept():
    protocols = benchmark("protocols")
    text = (ROOT / "docs/protocols.md").read_text()
    assert f"{protocols.START}\n{protocols.tables()}{protocols.END}" in text


@pytest.fixture
def privacy(monkeypatch):
    module = benchmark("privacy")
    monkeypatch.setattr(module, "SMALL", {"columns": 16, "epochs": 1})
    for name, value in (("SEEDS", 1), ("SPLITS", 1), ("POWER_SEEDS", 1), ("BUDGETS", (2,)), ("EPSILONS", ("4", "inf"))):
        monkeypatch.setattr(module, name, value)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["privacy.py", *map(str, arguments)])
        module.main()

    return run


def test_privacy_is_measured_once_and_written_between_markers(privacy, tmp_path):
    results, page, picture = tmp_path / "privacy.jsonl", tmp_path / "page.md", tmp_path / "picture.png"
    asked = ("--data", tmp_path, "--dataset", "digits", "--results", results)
    for _ in range(2):  # what is there is not measured again
        privacy("accuracy", *asked)
        privacy("leaks", *asked, "--learner", "ergnn", "finetune", "noise")
        privacy("power", *asked)
        rows = [json.loads(line) for line in results.read_text().splitlines()]
        assert [sum(row["kind"] == kind for row in rows) for kind in ("accuracy", "leaks", "power")] == [7, 3, 2]
    page.write_text("".join(f"<!-- {name}: x -->\nold\n<!-- end -->\n" for name in ("leaks", "power", "accuracy")))
    for _ in range(2):
        privacy("table", "--results", results, "--page", page)
        text = page.read_text()
        assert "old" not in text and text.count("| digits | finetune |") == 1
        assert "| digits | ergnn | 2 |" in text and "**1.00** /" in text
        assert "| `exact_copies` | 1 of 1 (1.00), 0 missed | 0 of 1 (0.00) |" in text
        assert "| analytic |" in text and "| private, ε = 4 |" in text
    privacy("figure", "--results", results, "--out", picture)
    assert picture.read_bytes()[1:4] == b"PNG"
    page.write_text("nothing")
    with pytest.raises(SystemExit, match="no markers for accuracy"):
        privacy("table", "--results", results, "--page", page)


def test_tables_of_privacy_are_those_of_the_results_that_are_kept(privacy, tmp_path):
    page, copy = ROOT / "docs/privacy.md", tmp_path / "page.md"
    copy.write_text(page.read_text())
    privacy("table", "--page", copy)
    assert copy.read_text() == page.read_text()
