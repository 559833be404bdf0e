"""A table of results for a terminal, a page, a paper, a spreadsheet or a program."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.table import Table

from delome.experiment.comparison import Comparison, ResultTable, Row
from delome.experiment.settings import KEYS, SELECTION
from delome.printable import csv_field, plain
from delome.reporting.names import short_names
from delome.reporting.terminal import literal

DIGITS = {"seconds": 1, "bytes": 0}
GROUPED = ("dataset", "setting")
"""What rows of one table in a terminal share."""
NONE = "–"
LATEX = str.maketrans(
    {sign: f"\\{sign}" for sign in "&%$#_{}"}
    | {"†": r"\dag{}", "‡": r"\ddag{}", "±": r"$\pm$", "−": "$-$", "×": r"$\times$", "–": "--"}
    | {"✓": r"\checkmark{}", "✗": r"\textsf{x}", "ε": r"$\varepsilon$"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}"}
)


def terminal_tables(table: ResultTable, width: int) -> Iterator[Table]:
    """For people: a table for each dataset and setting, best means in bold, what all its rows have in common in the
    title, and how parameters were selected below it; of more metrics than fit into the width, several.

    Nothing is cut, and neither numbers nor names of methods are broken into several lines.
    """
    lines = [
        Line(own | {"seeds": str(len(row.seeds))}, dict(zip(table.metrics, texts, strict=True)))
        for own, (row, texts) in zip(_words(table), _cells(table, lambda text: f"[bold]{text}[/bold]"), strict=True)
    ]
    groups: dict[tuple[str, ...], list[Line]] = {}
    for line in lines:
        groups.setdefault(tuple(line.words.get(name, "") for name in GROUPED), []).append(line)
    if lines and len(groups) == len(lines):  # tables of one row each would be harder to read
        groups = {(): lines}
    settings = [*(name for name in table.columns if name != SELECTION), "seeds"]
    for group in groups.values():
        # a method without a memory has no budget to differ in
        values = {name: {line.words[name] for line in group} - {NONE} for name in settings}
        columns = [name for name in settings if name == "method" or len(values[name]) > 1]
        title = _title(group, {name: value for name in settings if name not in columns for value in values[name]})
        for metrics in _that_fit(group, columns, table.metrics, width):
            yield _terminal_table(group, columns, metrics, title)


def _title(lines: Sequence[Line], shared: Mapping[str, str]) -> str:
    """What rows have in common; parameters that only some methods have are called theirs."""
    owners: dict[str, list[str]] = {}
    for name, value in shared.items():
        having = [line.words.get("method", "") for line in lines if line.words.get(name) != NONE]
        common = name in KEYS or len(having) == len(lines)
        owner = "" if common else literal(", ".join(dict.fromkeys(having)))
        owners.setdefault(owner, []).append(f"{name} {literal(value)}")
    return "; ".join(f"{owner}: {', '.join(own)}" if owner else ", ".join(own) for owner, own in owners.items())


@dataclass(frozen=True)
class Line:
    """A row of a table in words: its settings, and its numbers by metric."""

    words: dict[str, str]
    numbers: dict[str, str]


def _that_fit(lines: Sequence[Line], columns: Sequence[str], metrics: Sequence[str], width: int) -> list[list[str]]:
    """Metrics in portions whose tables are at most so wide, if settings are broken into lines of twelve letters."""
    least = 12
    sides = sum(3 + min(least, max(len(name), *(len(line.words[name]) for line in lines))) for name in columns)
    method = max(len(line.words.get("method", "")) for line in lines) + len(" (99)")
    left = width - 1 - sides - max(0, method - least)
    found: list[list[str]] = [[]]
    used = 0
    for metric in metrics:
        texts = [heading(metric).split()[-1], *(re.sub(r"\[/?bold\]", "", line.numbers[metric]) for line in lines)]
        own = 3 + max(map(len, texts))
        if found[-1] and used + own > left:
            found.append([])
            used = 0
        found[-1].append(metric)
        used += own
    return found


def _terminal_table(lines: Sequence[Line], columns: Sequence[str], metrics: Sequence[str], title: str) -> Table:
    selections = list(dict.fromkeys(text for line in lines if (text := line.words.get(SELECTION, NONE)) != NONE))
    drawn = Table(
        title=title,
        caption="\n".join(f"{number}. {literal(text)}" for number, text in enumerate(selections, start=1)),
        caption_justify="left",
    )
    for name in columns:
        drawn.add_column(
            name, overflow="fold", justify="right" if name == "seeds" else "left", no_wrap=name in ("method", "seeds")
        )
    for metric in metrics:
        drawn.add_column(heading(metric).replace(" ", "\n"), justify="right", no_wrap=True)
    for line in lines:
        mark = f" ({1 + selections.index(line.words[SELECTION])})" if line.words.get(SELECTION) in selections else ""
        settings = [literal(line.words[name] + (mark if name == "method" else "")) for name in columns]
        drawn.add_row(*settings, *(line.numbers[metric] for metric in metrics))
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
    heads = [*table.columns, "seeds", *map(heading, table.metrics)]
    lines = [
        [*(own[name] for name in table.columns), str(len(row.seeds)), *cells]
        for own, (row, cells) in zip(_words(table), _cells(table, str), strict=True)
    ]
    left = len(table.columns)
    bold = {(row, left + 1 + k) for k, metric in enumerate(table.metrics) for row in table.best(metric)}
    tabular = latex_tabular(heads, lines, left, bold)
    return "\n".join([tabular, *(f"% {note}" for note in table.footnotes)]) + "\n"


def latex_tabular(
    heads: Sequence[str],
    lines: Sequence[Sequence[str]],
    left: int,
    bold: Container[tuple[int, int]] = (),
    raised: Sequence[str] = (),
) -> str:
    """A ``tabular`` with booktabs rules whose first ``left`` columns are text; ``bold`` has lines and columns of cells,
    and ``raised`` is for each line what stands behind its first cell.

    >>> print(latex_tabular(["method", "AA"], [["a_b", "97 ± 1"]], left=1, bold={(0, 1)}))
    \\begin{tabular}{lr}
    \\toprule
    method & AA \\\\
    \\midrule
    a\\_b & \\textbf{97 $\\pm$ 1} \\\\
    \\bottomrule
    \\end{tabular}
    """
    columns = "l" * left + "r" * (len(heads) - left)
    parts = [f"\\begin{{tabular}}{{{columns}}}", "\\toprule", " & ".join(map(latex_text, heads)) + r" \\", "\\midrule"]
    for number, line in enumerate(lines):
        cells = [latex_text(cell) for cell in line]
        marked = [f"\\textbf{{{cell}}}" if (number, k) in bold else cell for k, cell in enumerate(cells)]
        marked[0] += f"\\textsuperscript{{{raised[number]}}}" if raised and raised[number] else ""
        parts.append(" & ".join(marked) + r" \\")
    return "\n".join([*parts, "\\bottomrule", "\\end{tabular}"])


def comma_separated(table: ResultTable) -> str:
    """For spreadsheets: marks, means and standard deviations, which are empty of one seed, in columns of their own."""
    heads = [name for metric in table.metrics for name in (metric, f"{metric}_std")]
    lines = [[*table.columns, "marks", "seeds", *heads]]
    for row in table.rows:
        numbers = [value for metric in table.metrics for value in (row.mean_of(metric), row.std_of(metric))]
        given = [row.settings.get(name) for name in table.columns]
        words = ["" if value is None else csv_field(str(value)) for value in given]
        words += [" ".join(row.marks), str(len(row.seeds))]
        lines.append([*words, *("" if value is None else str(value) for value in numbers)])
    return "".join(",".join(line) + "\n" for line in lines)


def document(table: ResultTable, comparisons: list[Comparison]) -> str:
    """For programs: every seed's numbers too."""
    rows = [
        {
            "settings": row.settings,
            "marks": list(row.marks),
            "seeds": row.seeds,
            "folders": sorted({record.folder for record in row.records}),
            "metrics": {
                metric: {"mean": row.mean_of(metric), "std": row.std_of(metric), "values": row.values(metric)}
                for metric in table.metrics
            },
        }
        for row in table.rows
    ]
    compared = [vars(each) for each in comparisons]
    content = {"rows": rows, "footnotes": table.footnotes, "comparisons": compared}
    return json.dumps(content, allow_nan=False) + "\n"


def heading(metric: str) -> str:
    """AA and AF in capitals, words as they are."""
    return " ".join(part.upper() if part in ("aa", "af") else part for part in metric.split("_"))


def _cells(table: ResultTable, bold: Callable[[str], str]) -> list[tuple[Row, list[str]]]:
    best = {metric: table.best(metric) for metric in table.metrics}
    found = []
    for number, row in enumerate(table.rows):
        texts = {metric: _cell(row, metric) for metric in table.metrics}
        found.append((row, [bold(text) if number in best[metric] else text for metric, text in texts.items()]))
    return found


def _cell(row: Row, metric: str) -> str:
    mean, std = row.mean_of(metric), row.std_of(metric)
    if mean is None:
        return NONE
    digits = DIGITS.get(metric, 2)
    spread = "" if std is None else f" ± {std:,.{digits}f}"
    return f"{mean:,.{digits}f}{spread}".replace("-", "−")


def _words(table: ResultTable) -> list[dict[str, str]]:
    """Settings of each row for people; files are called by their names as long as these tell them apart."""
    names = short_names(str(row.settings.get("dataset")) for row in table.rows)
    words = []
    for row in table.rows:
        values = {name: row.settings.get(name) for name in table.columns}
        own = {name: NONE if value is None else plain(value) for name, value in values.items()}
        own |= {"dataset": names.get(own.get("dataset", ""), own.get("dataset", ""))}
        # a method that knows more than others has a mark
        words.append(own | {"method": own.get("method", "") + row.mark})
    return words


def latex_text(text: str) -> str:
    """Text for LaTeX, in which two hyphens do not become a dash.

    >>> print(latex_text("50 % (--set a_b=1)"))
    50 \\% (-{}-set a\\_b=1)
    """
    return "-{}-".join(part.translate(LATEX) for part in text.split("--"))
