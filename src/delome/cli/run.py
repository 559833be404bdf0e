"""``delome run``: a stream of tasks, learned and measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from delome.cli.app import AsJson, DataRoot, Quiet, Verbose, app
from delome.cli.many import run_plan
from delome.cli.messages import shown_progress
from delome.cli.options import several_values, taken, with_options_of
from delome.errors import ParameterError
from delome.experiment.options import RunOptions, SweepOptions
from delome.parameters import assignment

if TYPE_CHECKING:
    from delome.commands import Run
    from delome.experiment.plan import Plan


@app.command()
@with_options_of(RunOptions)
@with_options_of(SweepOptions, before="quiet")
def run(
    data_root: DataRoot = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Run folder, or with several runs the folder that holds theirs.  "
            "[default: runs/DATASET-METHOD-SETTING-HASH]",
        ),
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

    The run folder gets a report for a browser, report.html; 'delome report' makes one of many runs.

    Several values with commas between them, as in --method delome,ergnn --budget 5,20 --set tau=0.5,1, are several
    runs: see 'delome sweep --help'.
    """
    many = taken(SweepOptions, options)
    lists = several_values(RunOptions, options)
    parameters = _parameters(lists["method"], options["assignments"] or [])
    several = any(len(values) > 1 for values in (*lists.values(), *parameters.values()))
    asked = many.jobs is not None or many.select_tasks is not None
    if several or asked or many.dry_run or many.select or many.cluster != "local":
        if fresh:
            raise ParameterError("--fresh is for a single run: choose another folder with --out")
        run_plan(
            _plan(options | lists, parameters),
            out or Path("runs"),
            many,
            checkpoint_every=checkpoint_every,
            data_root=data_root,
            quiet=quiet,
            verbose=verbose,
            as_json=as_json,
        )
        return
    from delome import commands
    from delome.experiment import Stop

    options |= {name: values[0] for name, values in lists.items()}
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
    _print_result(found)


def _parameters(methods: list[str], assignments: list[str]) -> dict[str, list[str]]:
    """The values that parameters are set to."""
    if not any("," in text for text in assignments):
        return {name: [text] for name, text in map(assignment, assignments)}
    from delome.experiment.plan import values_between_commas  # imports torch

    return values_between_commas(methods, assignments)


def _plan(options: dict[str, Any], parameters: dict[str, list[str]]) -> Plan:
    """The plan of options and parameters that may be lists."""
    from delome.experiment.plan import SET, Plan

    given = {name: value for name, value in options.items() if value is not None and name != "assignments"}
    return Plan(given | {SET: parameters})


def _print_result(found: Run) -> None:
    from delome.reporting.tables import accuracy_table, phase_table, summary_lines
    from delome.reporting.terminal import literal

    console, result = Console(), found.result
    console.print(accuracy_table(result, console.width))
    console.print(phase_table(result))
    for line in summary_lines(result):
        console.print(line, highlight=False)
    drawn = f" ({', '.join(figure.name for figure in found.figures)})" if found.figures else ""
    console.print(f"run folder: {literal(found.folder)}{drawn}", highlight=False, soft_wrap=True)
    if found.report is not None:
        console.print(f"report: {literal(found.report)}", highlight=False, soft_wrap=True)
