"""``delome sweep``: many runs of a plan."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from delome.cli.app import AsJson, DataRoot, Quiet, Verbose, app
from delome.cli.many import run_plan
from delome.cli.options import taken, with_options_of
from delome.experiment.options import SweepOptions


@app.command()
@with_options_of(SweepOptions, before="checkpoint_every")
def sweep(
    plan: Annotated[Path, typer.Argument(metavar="PLAN.toml", show_default=False)],
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where run folders go.")] = Path("runs"),
    checkpoint_every: Annotated[
        float, typer.Option(metavar="SECONDS", help="Time between checkpoints inside a task.")
    ] = 60,
    data_root: DataRoot = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
    **options: Any,
) -> None:
    """Run every combination of a plan that is not finished yet.

    A plan is TOML: options of 'delome run', each a value or a list, and parameters of methods under [set].
    [[override]] with when = { … } changes options of some runs, [[exclude]] leaves some out, [select] chooses
    parameters on validation nodes. Give the same command again to resume, or to add what is new in the plan.

    The folder gets a report for a browser, report.html, of all its runs; see 'delome report --help'.
    """
    from delome.experiment.plan import Plan

    run_plan(
        Plan.read(plan),
        out,
        taken(SweepOptions, options),
        checkpoint_every=checkpoint_every,
        data_root=data_root,
        quiet=quiet,
        verbose=verbose,
        as_json=as_json,
    )
