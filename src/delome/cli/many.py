"""What commands with many runs share: their options, and how a plan is run and shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from delome.cli.app import among
from delome.cli.messages import shown_sweep
from delome.errors import DelomeError
from delome.experiment.engine import CLUSTERS

if TYPE_CHECKING:
    from delome.experiment.plan import Plan

Jobs = Annotated[
    int | None,
    typer.Option(metavar="N", help="Runs at a time.  [default: as many as fit into cores and memory]"),
]
Cluster = Annotated[
    str,
    typer.Option(
        metavar="local|ray",
        help="Where: processes here, or a Ray cluster (the one at RAY_ADDRESS, or a new one).",
        autocompletion=among(CLUSTERS),
    ),
]
Select = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PROTOCOL|NAME=V,V",
        help="Choose parameters on validation nodes: honest (on the first tasks) or benchmark (on the whole stream); "
        "NAME=V,V replaces the methods' own search spaces; repeatable.",
    ),
]
SelectTasks = Annotated[int, typer.Option(metavar="N", help="Tasks on which an honest selection compares candidates.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print what would run, and about how long it takes.")]
Models = Annotated[bool, typer.Option("--models", help="Keep the learner of every run; else only its results.")]


def run_plan(
    plan: Plan,
    out: Path,
    *,
    dry_run: bool,
    quiet: bool,
    verbose: bool,
    as_json: bool,
    select: list[str] | None,
    select_tasks: int,
    data_root: Path | None,
    **options: Any,
) -> None:
    """Runs a plan, shows how far it is, and prints the table of its runs."""
    from delome.commands.sweep import estimate
    from delome.commands.sweep import sweep as run
    from delome.experiment import Stop
    from delome.experiment.collection import collect
    from delome.experiment.comparison import tabulate
    from delome.experiment.selection import Selection
    from delome.report.formats import terminal_table

    selection = Selection.parse(select or [], select_tasks)
    stop = Stop()
    with shown_sweep(quiet, verbose) as shown, stop.on_signals():
        if dry_run:
            expected = estimate(plan, out, selection, data_root, shown.loading)
            print(json.dumps(expected.as_dict()) if as_json else expected.in_words())
            return
        report = run(
            plan,
            out,
            select=selection,
            data_root=data_root,
            progress=shown.loading,
            watch=shown.show,
            stop=stop,
            **options,
        )
    slugs = {config.slug for config in report.configs}
    if as_json:
        print(json.dumps(report.as_dict()))
    else:
        records = [record for record in collect([out]) if Path(record.folder).name in slugs]
        table = tabulate(records)
        console = Console()
        if table.rows:
            console.print(terminal_table(table))
        for line in [*table.footnotes, f"run folders: {out}"]:
            console.print(line, highlight=False, markup=False)
    if report.failed:
        first = next(iter(report.failed))
        raise DelomeError(f"{len(report.failed)} runs failed, {first} because: {report.failed[first]}")
