"""What commands with many runs share: how a plan is run and shown."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from delome.cli.messages import shown_sweep
from delome.errors import DelomeError, ParameterError
from delome.experiment.options import SweepOptions
from delome.printable import counted

if TYPE_CHECKING:
    from delome.experiment.plan import Plan
    from delome.experiment.selection import Selection


def run_plan(
    plan: Plan,
    out: Path,
    options: SweepOptions,
    *,
    checkpoint_every: float,
    data_root: Path | None,
    quiet: bool,
    verbose: bool,
    as_json: bool,
) -> None:
    """Runs a plan, shows how far it is, and prints the table of its runs."""
    from delome.commands.sweep import estimate
    from delome.commands.sweep import sweep as run
    from delome.experiment import Stop
    from delome.experiment.collection import collect
    from delome.experiment.comparison import tabulate
    from delome.reporting.formats import terminal_tables

    selection = _selection(plan, options)
    plan = replace(plan, select={})
    stop = Stop()
    with shown_sweep(quiet, verbose) as shown, stop.on_signals():
        if options.dry_run:
            expected = estimate(plan, out, selection, data_root, shown.loading)
            print(json.dumps(expected.as_dict()) if as_json else expected.in_words())
            return
        report = run(
            plan,
            out,
            select=selection,
            jobs=options.jobs,
            cluster=options.cluster,
            keep_models=options.models,
            checkpoint_every=checkpoint_every,
            data_root=data_root,
            progress=shown.loading,
            watch=shown.show,
            stop=stop,
        )
    slugs = {config.slug for config in report.configs}
    if as_json:
        print(json.dumps(report.as_dict()))
    else:
        records = [record for record in collect([out]) if Path(record.folder).name in slugs]
        table = tabulate(records, candidates=True)
        console = Console()
        for drawn in terminal_tables(table, console.width):
            console.print(drawn)
        written = [] if report.report is None else [f"report: {report.report}"]
        for line in [*table.footnotes, f"run folders: {out}", *written]:
            console.print(line, highlight=False, markup=False, soft_wrap=line in written)
    if report.failed:
        first = next(iter(report.failed))
        raise DelomeError(f"{counted(len(report.failed), 'run')} failed, {first} because: {report.failed[first]}")


def _selection(plan: Plan, options: SweepOptions) -> Selection | None:
    """The selection of a plan, unless options say otherwise."""
    from delome.experiment.selection import Selection

    tasks = options.select_tasks
    if options.select:
        found = Selection.parse(options.select, tasks)
    else:
        found = Selection.of(plan.select)
        found = found if found is None or tasks is None else replace(found, tasks=tasks)
    if found is None and tasks is not None:
        raise ParameterError("--select-tasks is for a selection, but nothing is selected: give --select honest, too")
    return found
