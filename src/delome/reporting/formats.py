"""A table of results for a terminal, a page, a paper, a spreadsheet or a program."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from rich.table import Table

from delome.experiment.comparison import Comparison, ResultTable, Row
from delome.printable import csv_field
from delome.reporting.terminal import literal

DIGITS = {"seconds": 1, "bytes": 0}
LATEX = str.maketrans(
    {sign: f"\\{sign}" for sign in "&%$#_{}"}
    | {"†": r"\dag{}", "‡": r"\ddag{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}"}
)


def terminal_table(table: ResultTable) -> Table:
    """For people: best means in bold, what all rows have in common in the title.

    Numbers are never broken into several lines, and settings only if they do not fit otherwise.
    """
    words = [own | {"seeds": str(len(row.seeds))} for own, row in zip(_words(table), table.rows, strict=True)]
    every = [*table.columns, "seeds"]
    same = [name for name in every if len({own[name] for own in words}) == 1]
    columns = [name for name in every if name not in same] or ["method"]
    cells = _cells(table, lambda text: f"[bold]{text}[/bold]")
    drawn = Table(title=", ".join(f"{name} {literal(words[0][name])}" for name in same if name not in columns))
    for name in columns:
        drawn.add_column(name, overflow="fold", justify="right" if name == "seeds" else "left")
    for metric in table.metrics:
        drawn.add_column(heading(metric).replace(" ", "\n"), justify="right", no_wrap=True)
    for own, (_, texts) in zip(words, cells, strict=True):
        drawn.add_row(*(literal(own[name]) for name in columns), *texts)
    return drawn


def markdown(table: ResultTable) -> str:
    """For pages: best means in bold, footnotes below."""
    lines = ["| " + " | ".join([*table.columns, "seeds", *map(heading, table.metrics)]) + " |"]
    lines.append("|" + "---|" * len(table.columns) + "---:|" * (1 + len(table.metrics)))
    for own, (row, cells) in zip(_words(table), _cells(table, lambda text: f"**{text}**"), strict=True):
        settings = [own[name].replace("|", "\\|") for name in table.columns]
        lines.append("| " + " | ".join([*settings, str(len(row.seeds)), *cells]) + " |")
    return "\n".join([*lines, *(f"\n{note}" for note in table.footnotes)]) + "\n"


def latex(table: ResultTable) -> str:
    """For papers: a ``tabular`` with booktabs rules; footnotes as comments."""
    columns = "l" * len(table.columns) + "r" * (1 + len(table.metrics))
    heads = [_latex(name) for name in [*table.columns, "seeds", *map(heading, table.metrics)]]
    lines = [f"\\begin{{tabular}}{{{columns}}}", "\\toprule", " & ".join(heads) + r" \\", "\\midrule"]
    for own, (row, cells) in zip(_words(table), _cells(table, lambda text: f"\\textbf{{{text}}}"), strict=True):
        settings = [_latex(own[name]) for name in table.columns]
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


def _words(table: ResultTable) -> list[dict[str, str]]:
    """Settings of each row for people; files are called by their names as long as these tell them apart."""
    datasets = {str(row.settings.get("dataset")) for row in table.rows}
    short = {dataset: re.sub(r"^file:(.*/)?|\.(npz|pt)$", "", dataset) for dataset in datasets}
    names = short if len(set(short.values())) == len(datasets) else {}
    words = []
    for row in table.rows:
        values = {name: row.settings.get(name) for name in table.columns}
        own = {name: "–" if value is None else str(value) for name, value in values.items()}
        own |= {"dataset": names.get(own.get("dataset", ""), own.get("dataset", ""))}
        # a method that knows more than others has a mark
        words.append(own | {"method": own.get("method", "") + row.mark})
    return words


def _latex(text: str) -> str:
    return text.translate(LATEX).replace("–", "--")
