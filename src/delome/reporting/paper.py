"""An experiment of the paper for a terminal or a page: what was reported beside what was measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.table import Table

from delome.reporting.formats import latex_tabular
from delome.reporting.names import short_names
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
LEGEND = "✓: at most one reported standard deviation away; ✗: more."


def experiment_tables(found: Mapping[str, Any]) -> Iterator[Table]:
    """For a terminal: a table for each dataset, and for each number that was reported, so that names are never cut."""
    for dataset, name in _datasets(found).items():
        metrics = list(_rows(found, dataset)[0]["metrics"])
        reported = _reported(found, dataset)
        for together in [[name] for name in metrics] if reported else [metrics]:
            drawn = Table(title=literal(f"{found['title']}: {name}"))
            heads, lines = _content(found, dataset, together)
            for number, head in enumerate(heads):
                drawn.add_column(literal(head), justify="left" if number == 0 else "right", no_wrap=True)
            for line in lines:
                drawn.add_row(*map(literal, line))
            yield drawn


def experiment_markdown(found: Mapping[str, Any]) -> str:
    """For a page: a table for each dataset, and the remarks."""
    parts = [f"## {found['title']}"]
    for dataset, name in _datasets(found).items():
        heads, lines = _content(found, dataset)
        rules = ["---", *["---:"] * (len(heads) - 1)]
        table = [[cell.replace("|", "\\|") for cell in line] for line in (heads, rules, *lines)]
        parts += [f"### {name}", "\n".join(f"| {' | '.join(line)} |" for line in table)]
    return "\n\n".join([*parts, *remarks(found)]) + "\n"


def experiment_latex(found: Mapping[str, Any]) -> str:
    """For a paper: a ``tabular`` with booktabs rules for each dataset; the remarks as comments."""
    parts = [f"% {found['title']}"]
    for dataset, name in _datasets(found).items():
        parts += [f"% {name}", latex_tabular(*_content(found, dataset), left=1)]
    return "\n".join([*parts, *(f"% {remark}" for remark in remarks(found))]) + "\n"


def remarks(found: Mapping[str, Any]) -> list[str]:
    """What a reader must know: the numbered notes, and what was left out."""
    lines = [f"{number}. {text}" for number, text in enumerate(found["notes"], start=1)]
    if any(numbers.get("within") is not None for row in found["rows"] for numbers in row["metrics"].values()):
        lines.insert(0, LEGEND)
    return lines + ([f"left out: {', '.join(found['left_out'])}"] if found["left_out"] else [])


def _datasets(found: Mapping[str, Any]) -> dict[str, str]:
    """The datasets of a document, and what they are called."""
    return short_names(row["dataset"] for row in found["rows"])


def _rows(found: Mapping[str, Any], dataset: str) -> list[Mapping[str, Any]]:
    return [row for row in found["rows"] if row["dataset"] == dataset]


def _reported(found: Mapping[str, Any], dataset: str) -> set[str]:
    """Metrics of which the paper reports something."""
    numbers = [each for row in _rows(found, dataset) for each in row["metrics"].items()]
    return {name for name, each in numbers if each["reported"] is not None}


def _content(
    found: Mapping[str, Any], dataset: str, metrics: Sequence[str] | None = None
) -> tuple[list[str], list[list[str]]]:
    """Headings and lines of a table with some metrics, or all; columns that would be empty are left out."""
    rows, reported = _rows(found, dataset), _reported(found, dataset)
    metrics = list(rows[0]["metrics"]) if metrics is None else metrics
    placed = any(row["x"] is not None for row in rows)
    # an axis may be explained behind a colon
    heads = ["method", *([str(found["x"]).partition(":")[0]] if placed else [])]
    for name in metrics:
        title = HEADINGS.get(name, name)
        heads += [f"{title} reported", "measured", "difference"] if name in reported else [title]
    lines = []
    for row in rows:
        marks = f" [{', '.join(map(str, row['notes']))}]" if row["notes"] else ""
        line = [f"{row['label']}{marks}", *([_place(row["x"])] if placed else [])]
        for name in metrics:
            numbers = row["metrics"][name]
            measured = with_spread(numbers["measured"], numbers.get("std"), name)
            if name in reported:
                of_paper = with_spread(numbers["reported"], numbers.get("reported_std"), name)
                line += [of_paper, measured, _difference(numbers)]
            else:
                line.append(measured)
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
