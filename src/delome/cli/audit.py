"""``delome audit``: what a learner gives away of the nodes it was trained on."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from delome.cli.app import AsJson, DataRoot, Quiet, Verbose, app
from delome.cli.described import completing
from delome.cli.messages import shown_progress


@app.command()
def audit(
    place: Annotated[Path, typer.Argument(metavar="FOLDER", hidden=True)],
    graph: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            autocompletion=completing("datasets"),
            help="For a saved model: the graph that it has learned, with a train_mask.",
        ),
    ] = None,
    shadows: Annotated[
        int, typer.Option(metavar="K", help="Runs on other splits, for the likelihood-ratio attack.")
    ] = 0,
    canaries: Annotated[
        int, typer.Option(metavar="K", help="Odd nodes to plant in one more run, and as many to hold out.")
    ] = 0,
    jobs: Annotated[
        int | None, typer.Option(metavar="N", help="Shadow runs at a time.  [default: as many as fit]")
    ] = None,
    method: Annotated[
        str | None, typer.Option(metavar="module:Class", help="For a model of a method of your own: that method.")
    ] = None,
    data_root: DataRoot = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> None:
    """Measure what a learner gives away of its training nodes.

    FOLDER is a run folder, or a saved model.

    Attacks on its memory rows and on the model look for the nodes that it was trained on, with held-out nodes as
    controls: copies, nearest neighbours, the nodes that rows were made from, words, membership, links. Each attack is
    also made on a planted leak and on noise, and concludes nothing where it could not have seen a leak. That none is
    found proves nothing about other attacks.
    """
    from delome.commands import audit as run_audit
    from delome.experiment import Stop
    from delome.learning import METHODS
    from delome.reporting.audit import audit_lines, audit_tables

    stop = Stop()
    with shown_progress(quiet, verbose) as watcher, stop.on_signals() if shadows else nullcontext():
        found = run_audit(
            place,
            graph=graph,
            shadows=shadows,
            canaries=canaries,
            jobs=jobs,
            data_root=data_root,
            watcher=watcher,
            methods=[] if method is None else [METHODS.importable(method)],
            stop=stop,
        )
    if as_json:
        print(json.dumps(found.as_dict(), allow_nan=False))
        return
    console = Console()
    for table in audit_tables(found.audit):
        console.print(table)
    for line in audit_lines(found.audit):
        console.print(line, highlight=False, markup=False)
    if found.file is not None:
        console.print(f"kept for reports: {found.file}", highlight=False, markup=False, soft_wrap=True)
