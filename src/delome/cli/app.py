"""The command line itself, and the options that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated

import typer

import delome

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
