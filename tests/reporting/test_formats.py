from __future__ import annotations

import json

import pytest
from rich.console import Console

from delome.experiment.collection import Record
from delome.experiment.comparison import ResultTable, tabulate
from delome.reporting import formats


@pytest.fixture
def table() -> ResultTable:
    def record(method: str, seed: int, aa: float) -> Record:
        config = {"dataset": "a_b", "setting": "cil", "method": method, "backbone": "sgc", "memory.budget": 5}
        return Record(
            method, method, seed, config, {"split": "x"}, {"aa": aa, "af": None, "bytes": 1e6 + aa}, 3, True, [aa], None
        )

    records = [record("=delome", 0, 90.0), record("=delome", 1, 92.0), record("ergnn", 0, 80.0)]
    return tabulate(records, metrics=["aa", "af", "bytes"])


def test_markdown(table: ResultTable) -> None:
    assert formats.markdown(table) == (
        "| dataset | setting | method | backbone | budget | seeds | AA | AF | bytes |\n"
        "|---|---|---|---|---|---:|---:|---:|---:|\n"
        "| a_b | cil | =delome | sgc | 5 | 2 | **91.00 ± 1.41** | – | 1,000,091 ± 1 |\n"
        "| a_b | cil | ergnn | sgc | 5 | 1 | 80.00 | – | **1,000,080** |\n"
        "\nrows have 1 to 2 seeds\n"
    )


def test_latex_escapes_names(table: ResultTable) -> None:
    lines = formats.latex(table).splitlines()
    assert lines[0] == r"\begin{tabular}{lllllrrrr}"
    assert lines[4] == r"a\_b & cil & =delome & sgc & 5 & 2 & \textbf{91.00 $\pm$ 1.41} & -- & 1,000,091 $\pm$ 1 \\"
    assert lines[-1] == "% rows have 1 to 2 seeds"


def named(datasets: list[str]) -> ResultTable:
    def record(dataset: str) -> Record:
        config = {"dataset": dataset, "setting": "cil", "method": "delome", "backbone": "sgc", "memory.budget": 5}
        metrics: dict[str, float | None] = {
            "validation_aa": 90.0,
            "validation_learning": 91.0,
            "aa": 92.0,
            "micro_aa": 93.0,
        }
        return Record(dataset, dataset, 0, config, {"split": "x"}, metrics, 3, True, [], [])

    return tabulate(list(map(record, datasets)), metrics=["validation_aa", "validation_learning", "aa", "micro_aa"])


def test_files_are_called_by_their_names_unless_two_have_the_same() -> None:
    assert "| cora70 | cil" in formats.markdown(named(["file:a/cora70.npz", "file:b/mine.pt"]))
    assert "| file:a/cora70.npz | cil" in formats.markdown(named(["file:a/cora70.npz", "file:b/cora70.npz"]))
    assert "file:a/cora70.npz,cil" in formats.comma_separated(named(["file:a/cora70.npz", "digits"]))


def test_what_was_selected_stands_beside_the_selection_alone() -> None:
    def record(strength: float, selection: str, run: str) -> Record:
        config = {"dataset": "digits", "setting": "cil", "method": "ewc", "backbone": "sgc", "strength": strength}
        return Record(run, run, 0, config, {"split": "x"}, {"aa": 90.0, "af": None}, 3, True, [], [], selection)

    chosen = [record(1.0, "honest (first 3 tasks): strength 1", "a"), record(2.0, "benchmark: strength 2", "b")]
    assert "strength" not in tabulate(chosen).columns and len(tabulate(chosen).rows) == 2
    assert "strength" in tabulate([*chosen, record(3.0, "", "c")]).columns


def test_settings_and_numbers_are_not_broken_into_lines_in_a_narrow_terminal() -> None:
    console = Console(width=80)
    with console.capture() as captured:
        console.print(*formats.terminal_tables(named(["file:data/corafull_knn256.npz", "digits"]), 80))
    assert "corafull_knn256" in captured.get() and "91.00" in captured.get()


def test_csv_is_safe_in_a_spreadsheet(table: ResultTable) -> None:
    lines = formats.comma_separated(table).splitlines()
    assert lines[0] == "dataset,setting,method,backbone,budget,marks,seeds,aa,aa_std,af,af_std,bytes,bytes_std"
    assert lines[1] == "a_b,cil,'=delome,sgc,5,,2,91.0,1.4142135623730951,,,1000091.0,1.4142135623730951"
    assert lines[2] == "a_b,cil,ergnn,sgc,5,,1,80.0,,,,1000080.0,"  # one seed has no standard deviation


def test_programs_are_told_of_marks_apart_from_names() -> None:
    def record(method: str, **declared: str) -> Record:
        config = {"dataset": "d", "setting": "cil", "method": method, **declared}
        return Record(method, method, 0, config, {"split": "x"}, {"aa": 90.0, "af": -1.0}, 3, True, [], [])

    table = tabulate([record("ewc"), record("tpp", asked="together", learned_from="all nodes")])
    assert [line.split(",")[2:5] for line in formats.comma_separated(table).splitlines()] == [
        ["method", "marks", "seeds"],
        ["ewc", "", "1"],
        ["tpp", "† ‡", "1"],
    ]
    found = json.loads(formats.document(table, table.compare("tpp", "ewc", "aa")))
    assert [(row["settings"]["method"], row["marks"]) for row in found["rows"]] == [("ewc", []), ("tpp", ["†", "‡"])]
    assert found["comparisons"][0]["marks"] == [["†", "‡"], []]


def test_json_has_every_seed(table: ResultTable) -> None:
    found = json.loads(formats.document(table, table.compare("=delome", "ergnn", "aa")))
    assert found["rows"][0]["metrics"]["aa"] == {"mean": 91.0, "std": pytest.approx(2**0.5), "values": [90.0, 92.0]}
    assert found["rows"][1]["metrics"]["aa"] == {"mean": 80.0, "std": None, "values": [80.0]}
    assert found["rows"][1]["metrics"]["af"] == {"mean": None, "std": None, "values": []}
    assert found["comparisons"][0]["difference"] == 10.0 and found["footnotes"] == ["rows have 1 to 2 seeds"]


def test_the_terminal_shows_common_settings_once(table: ResultTable) -> None:
    console = Console(width=80)
    with console.capture() as captured:
        console.print(*formats.terminal_tables(table, 80))
    shown = captured.get()
    assert "dataset a_b, setting cil, backbone sgc, budget 5" in shown
    assert "=delome" in shown and "91.00 ± 1.41" in shown and "dataset ┃" not in shown


def test_the_terminal_shows_each_dataset_by_itself_and_selections_below() -> None:
    def record(dataset: str, method: str, selection: str = "") -> Record:
        config = {"dataset": f"file:a/{dataset}.npz", "setting": "cil", "method": method, "memory.budget": 5}
        metrics: dict[str, float | None] = dict.fromkeys(("aa", "af", "seconds"), 1234.5)
        run = dataset + method + selection
        return Record(run, run, 0, config, {"split": "x"}, metrics, 3, True, [], [], selection)

    chosen = "honest (first 3 tasks): sampler cm, radius 0.5"
    records = [
        record(dataset, method, chosen if method == "ergnn" else "")
        for dataset in ("corafull_knn256", "amazon_computers")
        for method in ("finetune", "sem-curvature", "ergnn")
    ]
    console = Console(width=80)
    with console.capture() as captured:
        for drawn in formats.terminal_tables(tabulate(records, metrics=["aa", "af", "seconds"]), 80):
            console.print(drawn)
    shown = captured.get()
    assert shown.count("│ sem-curvature ") == shown.count("│ ergnn (1) ") == 2
    assert shown.count("1. honest (first 3 tasks): sampler cm, radius 0.5") == 2
    assert shown.index("dataset amazon_computers") < shown.index("dataset corafull_knn256")
    assert max(map(len, shown.splitlines())) <= 80 and "radius 0.5 │" not in shown


def test_titles_say_whose_a_parameter_is_that_not_every_row_has() -> None:
    def record(dataset: str, method: str, **parameters: object) -> Record:
        config = {"dataset": dataset, "setting": "cil", "method": method, "memory.budget": 5, **parameters}
        run = repr(config)
        return Record(run, run, 0, config, {"split": "x"}, {"aa": 90.0, "af": None}, 3, True, [], [])

    records = [record("a", "ewc", strength=1e6), record("a", "ergnn", sampler="cm", radius=0.5)]
    records += [record("b", "ewc", strength=1e5), record("b", "ergnn", sampler="mf", radius=0.7)]
    titles = [drawn.title for drawn in formats.terminal_tables(tabulate(records), 200)]
    assert titles == [
        "dataset a, setting cil, budget 5, seeds 1; ewc: strength 1000000; ergnn: sampler cm, radius 0.5",
        "dataset b, setting cil, budget 5, seeds 1; ewc: strength 100000; ergnn: sampler mf, radius 0.7",
    ]


def test_metrics_that_do_not_fit_are_a_table_of_their_own() -> None:
    def record(budget: int) -> Record:
        config = {"dataset": "digits", "setting": "cil", "method": "ssm-uniform", "memory.budget": budget}
        metrics: dict[str, float | None] = dict.fromkeys(("aa", "af", "anytime", "seconds", "bytes"), 123456.78)
        return Record(str(budget), str(budget), 0, config, {"split": "x"}, metrics, 3, True, [], [])

    table = tabulate([record(5), record(60)], metrics=["aa", "af", "anytime", "seconds", "bytes"])
    console = Console(width=60)
    with console.capture() as captured:
        for drawn in formats.terminal_tables(table, 60):
            console.print(drawn)
    shown = captured.get()
    assert "…" not in shown and shown.count("│ ssm-uniform │ 60 ") == shown.count("budget ┃") == 3
    assert len(list(formats.terminal_tables(table, 200))) == 1
