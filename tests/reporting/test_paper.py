from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

from delome.reporting.paper import experiment_latex, experiment_markdown, experiment_parts


def numbers(measured: float, reported: float | None = None) -> dict[str, Any]:
    compared = {"difference": None, "within": None} if reported is None else {"difference": -0.6, "within": True}
    return {"measured": measured, "std": 0.5, "seeds": 5, "reported": reported, "reported_std": 1.0, **compared}


def row(label: str, dataset: str, aa: dict[str, Any], **changes: Any) -> dict[str, Any]:
    how: dict[str, Any] = {"notes": [], "settings": [], "left_out": [], "command": ""}
    return {"label": label, "dataset": dataset, "x": None, "metrics": {"aa": aa}} | how | changes


def found() -> dict[str, Any]:
    rows = [
        row("A × B", "arxiv", numbers(50.0, 50.6), notes=["As --is."], selection="honest: a_b 1"),
        row("Joint", "arxiv", numbers(60.0), notes=["Joint only.", "As --is."], left_out=[]),
        row("EWC", "my|graph", numbers(-7.25), left_out=["tasks after the first 5"], settings=["columns=8"]),
    ]
    return {"title": "T", "form": "table", "x": None, "rows": rows}


def test_an_experiment_is_a_page_with_a_table_for_each_dataset() -> None:
    assert experiment_markdown(found()).splitlines() == [
        "## T",
        "",
        "### arxiv",
        "",
        "| method | AA reported | measured | difference |",
        "| --- | ---: | ---: | ---: |",
        "| A × B [1] | 50.6 ± 1.0 | 50.0 ± 0.5 | −0.6 ✓ |",
        "| Joint [1, 2] |  | 60.0 ± 0.5 |  |",
        "",
        "Seeds: 5. Selected on validation nodes, honest: A × B a_b 1.",
        "",
        "### my|graph",
        "",
        "| method | AA |",
        "| --- | ---: |",
        "| EWC | −7.2 ± 0.5 |",
        "",
        "Seeds: 5. Run with columns=8 where the method has that parameter. Left out: tasks after the first 5.",
        "",
        "✓: at most one reported standard deviation away; ✗: more.",
        "",
        "1. As --is.",
        "",
        "2. Joint only.",
    ]


def test_an_empty_column_of_differences_is_left_out() -> None:
    content = found()
    content["rows"][0]["metrics"]["aa"] |= {"difference": None, "within": None}
    page = experiment_markdown(content)
    assert "| method | AA reported | measured |\n" in page and "no difference is given" in page and "✓" not in page


def test_files_are_called_by_their_names() -> None:
    content = found()
    content["rows"] = [row | {"dataset": f"file:data/{row['dataset']}.npz"} for row in content["rows"]]
    assert "\n### arxiv\n" in experiment_markdown(content) and "\n% my|graph\n" in experiment_latex(content)
    titles = [part.title for part in experiment_parts(content) if isinstance(part, Table)]
    assert titles == ["T: arxiv", "T: my|graph"]


def test_an_experiment_is_a_tabular_for_each_dataset_with_its_own_notes_below() -> None:
    first, second = experiment_latex(found()).split("% my|graph\n")
    assert first.splitlines()[3:] == [
        r"\begin{tabular}{lrrr}",
        r"\toprule",
        r"method & AA reported & measured & difference \\",
        r"\midrule",
        r"A $\times$ B & 50.6 $\pm$ 1.0 & 50.0 $\pm$ 0.5 & $-$0.6 \checkmark{} \\",
        r"Joint\textsuperscript{1} &  & 60.0 $\pm$ 0.5 &  \\",
        r"\bottomrule",
        r"\end{tabular}",
        r"\par\smallskip",
        r"\begin{minipage}{\linewidth}\footnotesize",
        r"Seeds: 5. Selected on validation nodes, honest: A $\times$ B a\_b 1.\par",
        r"\checkmark{}: at most one reported standard deviation away; \textsf{x}: more.\par",
        r"As -{}-is.\par",
        r"\textsuperscript{1} Joint only.",
        r"\end{minipage}",
    ]
    assert r"EWC & $-$7.2 $\pm$ 0.5 \\" in second and "textsuperscript" not in second


def test_names_are_never_cut_in_a_terminal() -> None:
    content = found()
    label = "DeLoMe (our defaults)"
    both = {"aa": numbers(50.0, 50.6), "af": numbers(-50.0, -51.0)}
    long = row(label, "arxiv", {}, notes=["One.", "Two."], x=82.5, metrics=both)
    content |= {"rows": [long, row("CaT", "arxiv", {}, metrics=both)], "x": "x: a / b"}
    console = Console(width=80)
    with console.capture() as captured:
        for part in experiment_parts(content):
            console.print(part, highlight=False)
    shown = captured.get()
    assert shown.count(f"│ {label} [1, 2] │") == 2 and "AF reported" in shown and "a / b" not in shown
    assert max(map(len, shown.splitlines())) <= 80
    assert shown.endswith("Seeds: 5.\n✓: at most one reported standard deviation away; ✗: more.\n1. One.\n2. Two.\n")
