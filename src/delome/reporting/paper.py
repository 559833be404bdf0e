"""An experiment of the paper for a terminal or a page: what was reported beside what was measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from rich.table import Table

from delome.reporting.formats import latex_tabular, latex_text
from delome.reporting.paper_notes import Rows, conditions, footnotes, marks
from delome.reporting.paper_tables import tables_of
from delome.reporting.terminal import literal

HEADINGS = {
    "aa": "AA",
    "af": "AF",
    "learning": "accuracy",
    "memory_seconds": "memory, s",
    "inference_seconds": "inference, s",
    "same_class": "nearest to their class, %",
}
WITHIN = {None: "", True: " ✓", False: " ✗"}


def experiment_parts(found: Mapping[str, Any]) -> Iterator[Table | str]:
    """For a terminal: of each table one for each number that was reported, so that names are never cut, and how
    it was measured; then the notes."""
    of_all, notes = footnotes(found["rows"])
    for name, rows in tables_of(found).items():
        metrics, reported = list(rows[0]["metrics"]), known(rows, "reported")
        for together in [[each] for each in metrics] if reported else [metrics]:
            drawn = Table(title=literal(f"{found['title']}: {name}"))
            heads, lines = _content(found, rows, together)
            for number, head in enumerate(heads):
                drawn.add_column(literal(head), justify="left" if number == 0 else "right", no_wrap=True)
            for line in _marked(lines, rows, notes):
                drawn.add_row(*map(literal, line))
            yield drawn
        yield from conditions(rows, found["form"])
    yield from (*of_all, *_numbered(notes))


def experiment_markdown(found: Mapping[str, Any]) -> str:
    """For a page: the tables of each dataset and how it was measured, then the notes."""
    of_all, notes = footnotes(found["rows"])
    parts = [f"## {found['title']}"]
    for name, rows in tables_of(found).items():
        heads, lines = _content(found, rows)
        rules = ["---", *["---:"] * (len(heads) - 1)]
        table = [[cell.replace("|", "\\|") for cell in line] for line in (heads, rules, *_marked(lines, rows, notes))]
        parts += [f"### {name}", "\n".join(f"| {' | '.join(line)} |" for line in table)]
        parts.append(" ".join(conditions(rows, found["form"])))
    return "\n\n".join([*parts, *of_all, *_numbered(notes)]) + "\n"


def experiment_latex(found: Mapping[str, Any]) -> str:
    """For a paper: for each table a ``tabular`` with booktabs rules, and below it how it was measured and the notes
    that touch it."""
    parts = [r"% \usepackage{booktabs, amssymb}", f"% {found['title']}"]
    for name, rows in tables_of(found).items():
        of_all, notes = footnotes(rows)
        raised = [", ".join(map(str, marks(row, notes))) for row in rows]
        said = [" ".join(conditions(rows, found["form"])), *of_all]
        lines = [*map(latex_text, said), *_numbered(notes, r"\textsuperscript{{{}}} {}", latex_text)]
        parts += [f"% {name}", latex_tabular(*_content(found, rows), left=1, raised=raised), r"\par\smallskip"]
        parts += [r"\begin{minipage}{\linewidth}\footnotesize", "\\par\n".join(lines), r"\end{minipage}"]
    return "\n".join(parts) + "\n"


def _numbered(notes: Sequence[str], form: str = "{}. {}", written: Callable[[str], str] = str) -> list[str]:
    return [form.format(number, written(text)) for number, text in enumerate(notes, start=1)]


def _marked(lines: Sequence[Sequence[str]], rows: Rows, notes: Sequence[str]) -> Iterator[list[str]]:
    """Lines of a table with the numbers of their notes behind their names."""
    for (label, *cells), row in zip(lines, rows, strict=True):
        numbers = marks(row, notes)
        yield [f"{label} [{', '.join(map(str, numbers))}]" if numbers else label, *cells]


def known(rows: Rows, number: str) -> set[str]:
    """Metrics of which some row has such a number: one that is reported, or a difference."""
    numbers = [each for row in rows for each in row["metrics"].items()]
    return {name for name, each in numbers if each.get(number) is not None}


def _content(
    found: Mapping[str, Any], rows: Rows, metrics: Sequence[str] | None = None
) -> tuple[list[str], list[list[str]]]:
    """Headings and lines of a table with some metrics, or all; columns that would be empty are left out."""
    reported, compared = known(rows, "reported"), known(rows, "difference")
    metrics = list(rows[0]["metrics"]) if metrics is None else metrics
    placed = any(row["x"] is not None for row in rows)
    # an axis may be explained behind a colon
    heads = ["method", *([str(found["x"]).partition(":")[0]] if placed else [])]
    for name in metrics:
        title = HEADINGS.get(name, name)
        heads += [f"{title} reported", "measured"] if name in reported else [title]
        heads += ["difference"] if name in compared else []
    lines = []
    for row in rows:
        line = [row["label"], *([_place(row["x"])] if placed else [])]
        for name in metrics:
            numbers = row["metrics"][name]
            measured = with_spread(numbers["measured"], numbers.get("std"), name)
            of_paper = with_spread(numbers["reported"], numbers.get("reported_std"), name)
            line += [of_paper, measured] if name in reported else [measured]
            line += [_difference(numbers)] if name in compared else []
        lines.append(line)
    return heads, lines


def _place(x: float | None) -> str:
    return "" if x is None else f"{x:.4g}"


def _difference(numbers: Mapping[str, Any]) -> str:
    if numbers["difference"] is None:
        return ""
    return f"{numbers['difference']:+.1f}{WITHIN[numbers['within']]}".replace("-", "−")


def with_spread(value: float | None, std: float | None, metric: str = "") -> str:
    """A mean and its standard deviation, as far as they are known: seconds with as many digits as they have, all else
    with one behind the point.

    >>> with_spread(81.04, 0.25), with_spread(-3.3, None), with_spread(None, None)
    ('81.0 ± 0.2', '−3.3', '')
    >>> with_spread(0.01234, 0.0004, "memory_seconds")
    '0.0123 ± 0.0004'
    """
    if value is None:
        return ""
    mean_form, std_form = (".3g", ".2g") if metric.endswith("seconds") else (".1f", ".1f")
    spread = "" if std is None else f" ± {std:{std_form}}"
    return f"{value:{mean_form}}{spread}".replace("-", "−")
