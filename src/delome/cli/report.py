"""``delome report``: runs and experiments as one HTML file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from delome.cli.app import AsJson, app, tell
from delome.cli.messages import shown_sweep


@app.command()
def report(
    folders: Annotated[list[Path] | None, typer.Argument(metavar="[DIR]...", show_default=False)] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Where to write it.  [default: report.html in the first folder]"),
    ] = None,
    figures: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Also write every figure as SVG and PDF, for a paper.")
    ] = None,
    show: Annotated[bool, typer.Option("--open", help="Open it in a browser.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write one HTML file about all runs and experiments of a folder.

    Without arguments: the folder 'runs'. The file holds tables, figures, selections, configurations and commands, and
    needs no network. 'delome run', 'delome sweep' and 'delome paper' leave one too. As LaTeX or Markdown, tables come
    from 'delome results'.
    """
    from delome import commands

    with shown_sweep(quiet=True, verbose=False):
        found = commands.report(folders or [], out=out, figures=figures)
    if as_json:
        print(json.dumps(found.as_dict()))
    else:
        console = Console()
        drawn = f", {len(found.figures)} figures: {figures}" if figures else ""
        console.print(f"report: {found.file}{drawn}", highlight=False, markup=False, soft_wrap=True)
    if show:
        open_page(found.file)


def open_page(file: Path) -> None:
    """Opens a file in a browser, or says that there is none."""
    import webbrowser

    if not webbrowser.open(file.resolve().as_uri()):
        tell(f"note: there is no browser here: open {file} in one")
