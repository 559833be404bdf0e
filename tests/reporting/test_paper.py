from __future__ import annotations

from typing import Any

from rich.console import Console

from delome.reporting.paper import experiment_latex, experiment_markdown, experiment_tables


def numbers(measured: float, reported: float | None = None) -> dict[str, Any]:
    compared = {"difference": None, "within": None} if reported is None else {"difference": -0.6, "within": True}
    return {"measured": measured, "std": 0.5, "reported": reported, "reported_std": 1.0, **compared}


def found() -> dict[str, Any]:
    rows = [
        {"label": "A × B", "dataset": "arxiv", "x": None, "notes": [1], "metrics": {"aa": numbers(50.0, 50.6)}},
        {"label": "EWC", "dataset": "my|graph", "x": None, "notes": [], "metrics": {"aa": numbers(-7.25)}},
    ]
    return {"title": "T", "x": None, "rows": rows, "notes": ["As it is."], "left_out": ["4 seeds"]}


def test_an_experiment_is_a_page_with_a_table_for_each_dataset() -> None:
    assert experiment_markdown(found()).splitlines() == [
        "## T",
        "",
        "### arxiv",
        "",
        "| method | AA reported | measured | difference |",
        "| --- | ---: | ---: | ---: |",
        "| A × B [1] | 50.6 ± 1.0 | 50.0 ± 0.5 | −0.6 ✓ |",
        "",
        "### my|graph",
        "",
        "| method | AA |",
        "| --- | ---: |",
        "| EWC | −7.2 ± 0.5 |",
        "",
        "✓: at most one reported standard deviation away; ✗: more.",
        "",
        "1. As it is.",
        "",
        "left out: 4 seeds",
    ]


def test_files_are_called_by_their_names() -> None:
    content = found()
    content["rows"] = [row | {"dataset": f"file:data/{row['dataset']}.npz"} for row in content["rows"]]
    assert "\n### arxiv\n" in experiment_markdown(content) and "\n% my|graph\n" in experiment_latex(content)
    assert [table.title for table in experiment_tables(content)] == ["T: arxiv", "T: my|graph"]


def test_an_experiment_is_a_tabular_for_each_dataset() -> None:
    lines = experiment_latex(found()).splitlines()
    assert lines.count(r"\begin{tabular}{lrrr}") == 1 and lines.count(r"\begin{tabular}{lr}") == 1
    assert r"A $\times$ B [1] & 50.6 $\pm$ 1.0 & 50.0 $\pm$ 0.5 & $-$0.6 \checkmark{} \\" in lines
    assert r"EWC & $-$7.2 $\pm$ 0.5 \\" in lines
    assert "% 1. As it is." in lines and "% my|graph" in lines
    assert lines.count(r"\end{tabular}") == 2


def test_names_are_never_cut_in_a_terminal() -> None:
    content = found()
    label = "DeLoMe (our defaults)"
    row = content["rows"][0] | {"label": label, "notes": [1, 2], "x": 82.5}
    content |= {"rows": [row | {"metrics": {"aa": numbers(50.0, 50.6), "af": numbers(-50.0, -51.0)}}], "x": "x: a / b"}
    console = Console(width=80)
    with console.capture() as captured:
        for table in experiment_tables(content):
            console.print(table)
    shown = captured.get()
    assert shown.count(f"│ {label} [1, 2] │") == 2 and "AF reported" in shown and "a / b" not in shown
    assert max(map(len, shown.splitlines())) <= 80
