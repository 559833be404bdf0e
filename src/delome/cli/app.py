"""The command line itself, and the options that several commands share."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

import delome
from delome.printable import printable

app = typer.Typer(
    help="Graph continual learning: one GNN keeps classifying a graph that grows task after task.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)

DataRoot = Annotated[
    Path | None,
    typer.Option(help="Folder of downloaded datasets. (default: $DELOME_DATA, else the platform's cache folder)"),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print exactly one JSON document on stdout.")]


def tell(sentence: str) -> None:
    """Says something on stderr, beside the output; if nobody can read it, that is no reason to fail."""
    with suppress(OSError):
        print(f"delome: {printable(sentence)}", file=sys.stderr, flush=True)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(delome.__version__)
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Options that stand before a command."""
