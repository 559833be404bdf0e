"""The command line itself, and the options that several commands share."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, TextIO

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
    try:
        print(f"delome: {printable(sentence)}", file=sys.stderr, flush=True)
    except OSError:
        sys.stderr = _nowhere(os.O_WRONLY)  # the interpreter would try once more, and fail


def drop_output() -> None:
    """Gives up what could not be written to stdout."""
    sys.stdout = _nowhere(os.O_WRONLY)


def replace_closed_streams() -> None:
    """Has what was closed when the program started fail like a full disk, instead of not being there."""
    sys.stdout = sys.stdout or _nowhere(os.O_RDONLY)
    sys.stderr = sys.stderr or _nowhere(os.O_WRONLY)


def _nowhere(flags: int) -> TextIO:
    return os.fdopen(os.open(os.devnull, flags), "w")


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
