"""``delome results``: one table of all runs below some folders."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from delome.cli.app import AsJson, among, app, tell
from delome.errors import ParameterError, unknown
from delome.parameters import listed

FORMATS = ("table", "csv", "markdown", "latex", "json")


@app.command()
def results(
    folders: Annotated[list[Path] | None, typer.Argument(metavar="[DIR]...", show_default=False)] = None,
    form: Annotated[
        str, typer.Option("--format", metavar="|".join(FORMATS), help="How to print.", autocompletion=among(FORMATS))
    ] = "table",
    by: Annotated[
        str | None,
        typer.Option(metavar="NAME,…", help="Settings that tell rows apart.  [default: all in which runs differ]"),
    ] = None,
    metric: Annotated[
        str,
        typer.Option(metavar="NAME,…", help="aa, af, learning, anytime, last, micro_…, validation_…, seconds, bytes."),
    ] = "aa,af",
    compare: Annotated[
        tuple[str, str] | None,
        typer.Option(metavar="A B", help="Test method A against B, paired over seeds."),
    ] = None,
    candidates: Annotated[
        bool, typer.Option("--candidates", help="Also show runs that a selection has tried and not chosen.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show a table of all runs: mean ± std over seeds, best in bold.

    Without arguments: the folder 'runs'. Rows that were not measured in the same way are pointed out below the table.
    """
    from delome.experiment.collection import collect
    from delome.experiment.comparison import tabulate
    from delome.reporting import formats

    if form not in FORMATS:
        raise ParameterError(unknown("format", form, FORMATS))
    if as_json and form not in (FORMATS[0], "json"):
        raise ParameterError(f"--json and --format {form} exclude each other: leave out one of them")
    problems: list[str] = []
    records = collect(folders or [Path("runs")], problems)
    for problem in problems:
        tell(f"note: {problem}")
    metrics = listed(metric)
    table = tabulate(records, by=None if by is None else listed(by), metrics=metrics, candidates=candidates)
    compared = [] if compare is None else table.compare(*compare, metrics[0])
    if as_json or form == "json":
        print(formats.document(table, compared), end="")
        return
    if not table.rows:
        left = [f" ({note})" for note in table.footnotes]
        raise ParameterError(f"there are no finished runs below these folders{''.join(left)}: 'delome run' makes some")
    if form == "table":
        console = Console()
        for drawn in formats.terminal_tables(table, console.width):
            console.print(drawn)
        for line in [*(each.in_words(metrics[0]) for each in compared), *table.footnotes]:
            console.print(line, highlight=False, markup=False)
        return
    written = {"csv": formats.comma_separated, "markdown": formats.markdown, "latex": formats.latex}[form](table)
    print(written, end="")
    said = [each.in_words(metrics[0]) for each in compared]
    if form == "csv":  # has no place for words
        for line in [*said, *table.footnotes]:
            tell(f"note: {line}")
    for line in said if form != "csv" else ():
        print(f"{'% ' if form == 'latex' else ''}{line}")
