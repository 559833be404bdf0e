"""The command line itself, and the options that several commands share."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, TextIO

import typer

import delome
from delome.printable import printable

app = typer.Typer(
    help="Graph continual learning: one GNN keeps classifying a graph that grows task after task.",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: it wraps in narrow terminals, and names no types of flags
)


def among(names: Iterable[str]) -> Callable[[], list[str]]:
    """Completes an option in a shell."""
    return lambda: list(names)


DataRoot = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="Where downloaded datasets are kept.  [default: $DELOME_DATA, else the platform's cache folder]",
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress; notes and errors still come on stderr.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Tell on stderr what is done and how long it takes.")]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print one JSON document on stdout, and an error as one on stderr.")
]


def tell(sentence: str) -> None:
    """Says a sentence of the program's own on stderr."""
    say(f"delome: {sentence}")


def say(line: str) -> None:
    """Writes a line on stderr, beside the output; if nobody can read it, that is no reason to fail."""
    with suppress(OSError):
        print(printable(line), file=sys.stderr, flush=True)


def drop_unwritable() -> None:
    """Gives up what could not be written to stderr: at its end the interpreter would try once more, and fail."""
    try:
        sys.stderr.flush()
    except OSError:
        sys.stderr = _nowhere(os.O_WRONLY)


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


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options that stand before a command."""
    if context.invoked_subcommand is None:
        print(context.get_help())
