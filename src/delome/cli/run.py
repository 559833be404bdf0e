"""``delome run``: a stream of tasks, learned and measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from delome.cli.app import AsJson, DataRoot, Quiet, Verbose, app
from delome.cli.messages import shown_progress
from delome.cli.options import with_options_of
from delome.experiment.options import RunOptions


@app.command()
@with_options_of(RunOptions)
def run(
    data_root: DataRoot = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Run folder.  [default: runs/DATASET-METHOD-SETTING-HASH]"),
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Start over; what the run folder holds is kept as a backup beside it.")
    ] = False,
    checkpoint_every: Annotated[
        float,
        typer.Option(
            metavar="SECONDS", help="Time between checkpoints inside a task; there is one after each task anyway."
        ),
    ] = 60,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
    **options: Any,
) -> None:
    """Learn a stream of tasks and measure what is remembered.

    Without arguments: DeLoMe on the embedded digits graph, 5 tasks of 2 classes, class-incremental.

    A run that was interrupted, even killed, resumes when the same command is given again, and ends with the identical
    result.
    """
    from delome import commands
    from delome.experiment import Stop

    stop = Stop()
    with shown_progress(quiet, verbose) as watcher, stop.on_signals():
        found = commands.run(
            out=out,
            fresh=fresh,
            checkpoint_every=checkpoint_every,
            data_root=data_root,
            watcher=watcher,
            stop=stop,
            **options,
        )
    if as_json:
        print(json.dumps(found.as_dict(), allow_nan=False))
        return
    _print_result(found.result, found.folder, found.figures)


def _print_result(result: Any, folder: Path, figures: list[Path]) -> None:
    from delome.report.tables import accuracy_table, phase_table, summary_lines
    from delome.report.terminal import literal

    console = Console()
    console.print(accuracy_table(result, console.width))
    console.print(phase_table(result))
    for line in summary_lines(result):
        console.print(line, highlight=False)
    drawn = f" ({', '.join(figure.name for figure in figures)})" if figures else ""
    console.print(f"run folder: {literal(folder)}{drawn}", highlight=False, soft_wrap=True)
