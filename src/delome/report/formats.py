"""A table of results for a terminal, a page, a paper, a spreadsheet or a program."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from rich.table import Table

from delome.experiment.comparison import Comparison, ResultTable, Row
from delome.printable import csv_field
from delome.report.terminal import literal

SHOWN = ("method", "selection")
"""Settings that have a column even if all rows share them."""
DIGITS = {"seconds": 1, "bytes": 0}
LATEX = str.maketrans(
    {sign: f"\\{sign}" for sign in "&%$#_{}"}
    | {"†": r"\dag{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}"}
)


def terminal_table(table: ResultTable) -> Table:
    """For people: best means in bold, what all rows have in common in the title."""
    same = [name for name in table.columns if len({str(row.settings.get(name)) for row in table.rows}) == 1]
    columns = [name for name in table.columns if name not in same or name in SHOWN]
    first = table.rows[0].settings
    drawn = Table(title=", ".join(f"{name} {literal(_word(first.get(name)))}" for name in same if name not in SHOWN))
    for name in columns:
        drawn.add_column(name, overflow="fold")
    drawn.add_column("seeds", justify="right")
    for metric in table.metrics:
        drawn.add_column(heading(metric), justify="right", no_wrap=True)
    for row, cells in _cells(table, lambda text: f"[bold]{text}[/bold]"):
        settings = [literal(_setting(row, name)) for name in columns]
        drawn.add_row(*settings, str(len(row.seeds)), *cells)
    return drawn


def markdown(table: ResultTable) -> str:
    """For pages: best means in bold, footnotes below."""
    lines = ["| " + " | ".join([*table.columns, "seeds", *map(heading, table.metrics)]) + " |"]
    lines.append("|" + "---|" * len(table.columns) + "---:|" * (1 + len(table.metrics)))
    for row, cells in _cells(table, lambda text: f"**{text}**"):
        settings = [_setting(row, name).replace("|", "\\|") for name in table.columns]
        lines.append("| " + " | ".join([*settings, str(len(row.seeds)), *cells]) + " |")
    return "\n".join([*lines, *(f"\n{note}" for note in table.footnotes)]) + "\n"


def latex(table: ResultTable) -> str:
    """For papers: a ``tabular`` with booktabs rules; footnotes as comments."""
    columns = "l" * len(table.columns) + "r" * (1 + len(table.metrics))
    heads = [_latex(name) for name in [*table.columns, "seeds", *map(heading, table.metrics)]]
    lines = [f"\\begin{{tabular}}{{{columns}}}", "\\toprule", " & ".join(heads) + r" \\", "\\midrule"]
    for row, cells in _cells(table, lambda text: f"\\textbf{{{text}}}"):
        settings = [_latex(_setting(row, name)) for name in table.columns]
        numbers = [cell.replace("±", r"$\pm$").replace("−", "$-$").replace("–", "--") for cell in cells]
        lines.append(" & ".join([*settings, str(len(row.seeds)), *numbers]) + r" \\")
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}", *(f"% {note}" for note in table.footnotes)]) + "\n"


def comma_separated(table: ResultTable) -> str:
    """For spreadsheets: means and standard deviations in columns of their own."""
    numbers = [name for metric in table.metrics for name in (metric, f"{metric}_std")]
    lines = [[*table.columns, "seeds", *numbers]]
    for row in table.rows:
        spreads = [row.spread(metric) or ("", "") for metric in table.metrics]
        given = [row.settings.get(name) for name in table.columns]
        settings = ["" if value is None else csv_field(str(value)) for value in given]
        lines.append([*settings, str(len(row.seeds)), *(str(value) for spread in spreads for value in spread)])
    return "".join(",".join(line) + "\n" for line in lines)


def document(table: ResultTable, comparisons: list[Comparison]) -> str:
    """For programs: every seed's numbers too."""
    rows = [
        {
            "settings": row.settings,
            "seeds": row.seeds,
            "folders": sorted({record.folder for record in row.records}),
            "metrics": {metric: _numbers(row, metric) for metric in table.metrics},
        }
        for row in table.rows
    ]
    compared = [vars(each) for each in comparisons]
    content = {"rows": rows, "footnotes": table.footnotes, "comparisons": compared}
    return json.dumps(content, allow_nan=False) + "\n"


def heading(metric: str) -> str:
    """AA and AF in capitals, words as they are."""
    return " ".join(part.upper() if part in ("aa", "af") else part for part in metric.split("_"))


def _numbers(row: Row, metric: str) -> dict[str, Any]:
    spread = row.spread(metric)
    mean, std = (None, None) if spread is None else spread
    return {"mean": mean, "std": std, "values": row.values(metric)}


def _cells(table: ResultTable, bold: Callable[[str], str]) -> list[tuple[Row, list[str]]]:
    best = {metric: table.best(metric) for metric in table.metrics}
    found = []
    for number, row in enumerate(table.rows):
        texts = {metric: _cell(row, metric) for metric in table.metrics}
        found.append((row, [bold(text) if number in best[metric] else text for metric, text in texts.items()]))
    return found


def _cell(row: Row, metric: str) -> str:
    spread = row.spread(metric)
    if spread is None:
        return "–"
    digits = DIGITS.get(metric, 2)
    std = f" ± {spread[1]:,.{digits}f}" if len(row.seeds) > 1 else ""
    return f"{spread[0]:,.{digits}f}{std}".replace("-", "−")


def _setting(row: Row, name: str) -> str:
    """A setting of a row; a method that is not asked as others are has a mark."""
    return _word(row.settings.get(name)) + (row.mark if name == "method" else "")


def _word(value: Any) -> str:
    return "–" if value is None else str(value)


def _latex(text: str) -> str:
    return text.translate(LATEX).replace("–", "--")
