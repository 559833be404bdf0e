"""``delome paper``: the experiments of the paper, reported and measured."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Column, Table

from delome.cli.app import AsJson, DataRoot, Quiet, Verbose, among, app, tell
from delome.cli.messages import shown_sweep
from delome.cli.options import split_values
from delome.errors import DelomeError, ParameterError, unknown
from delome.printable import counted

SELECTIONS = ("honest", "benchmark", "none")


@app.command()
def paper(
    experiment: Annotated[str, typer.Argument(metavar="EXPERIMENT", show_default=False)] = "list",
    datasets: Annotated[
        str | None,
        typer.Option(metavar="NAME,…", help="Graphs in place of the published ones: digits, file:PATH, …"),
    ] = None,
    methods: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,…", help="Only these rows: labels (DeLoMe), or methods with all their rows (delome)."
        ),
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(metavar="N", help="Repeat with N seeds.  [default: 5, as in the paper]")
    ] = None,
    select: Annotated[
        list[str] | None,
        typer.Option(
            metavar="|".join([*SELECTIONS, "NAME=VALUE,…"]),
            help="How parameters are chosen on validation nodes; NAME=VALUE,VALUE gives a search space, and can be "
            "repeated.  [default: honest; none with --quick]",
            autocompletion=among(SELECTIONS),
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Fit into a lunch break: one seed, the first tasks, nothing selected.")
    ] = False,
    assignments: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="A parameter of all methods that have it, e.g. columns=512; repeatable."
        ),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(metavar="N", help="Runs at a time.  [default: as many as fit into cores and memory]"),
    ] = None,
    cluster: Annotated[
        str, typer.Option(metavar="local|ray", help="Where: processes here, or a Ray cluster.")
    ] = "local",
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where run folders and results go.")] = Path("paper"),
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would run, and about how long it takes.")
    ] = False,
    data_root: DataRoot = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> None:
    """Repeat an experiment of the paper and compare the numbers.

    EXPERIMENT is a name that 'delome paper list' shows, several with commas between them, or all.

    Any graph can take the place of a published one (--datasets): the protocol stays, and nothing is reported. Memories
    have 20 rows per class on digits, 400 on arxiv, reddit, products and their twins, and 60 on all others (--set
    budget=N sets another number); curves over budgets have 5 to 60, on arxiv 50 to 400. Runs are shared between
    experiments, and never run twice: give the same command again to resume or to extend. The folder gets a report for a
    browser, report.html; see 'delome report --help'.
    """
    if experiment == "list":
        _list(as_json)
        return
    from delome.commands.paper import paper as run
    from delome.commands.paper import paper_estimate
    from delome.experiment import Stop
    from delome.experiment.engine import check_engine

    asked: dict[str, Any] = {
        "datasets": _names(datasets),
        "methods": _names(methods),
        "seeds": seeds,
        "quick": quick,
        "assignments": assignments or [],
    }
    names, selection = _names(experiment) or [], _selection(select, quick)
    maps = _without_runs(names)
    if maps and (seeds is not None or select is not None):
        tell(f"note: {maps[0]} is one map without runs: --seeds and --select do not change it")
    stop = Stop()
    with shown_sweep(quiet, verbose) as shown, stop.on_signals():
        check_engine(cluster, jobs)
        if dry_run:
            expected = paper_estimate(names, out, selection, data_root, shown.loading, **asked)
            print(json.dumps(expected.as_dict()) if as_json else expected.in_words())
            if maps:
                tell(f"note: {maps[0]} has no runs to count: its map takes about a minute for each dataset")
            return
        report = run(
            names,
            out,
            select=selection,
            jobs=jobs,
            cluster=cluster,
            data_root=data_root,
            progress=shown.loading,
            watch=shown.show,
            stop=stop,
            command=shlex.join(["delome", *sys.argv[1:]]),
            **asked,
        )
    if as_json:
        print(json.dumps(report.as_dict(), allow_nan=False))
    else:
        _print(report.documents, out, report.report)
    if report.failed:
        first = next(iter(report.failed))
        raise DelomeError(f"{counted(len(report.failed), 'run')} failed, {first} because: {report.failed[first]}")


def _list(as_json: bool) -> None:
    from delome.paper.experiment import NAMES, load_experiment

    found = [load_experiment(name) for name in NAMES]
    if as_json:
        every = {
            each.name: {
                "title": each.title,
                "place": each.place,
                "datasets": list(each.datasets),
                "methods": [row.label for row in each.rows],
            }
            for each in found
        }
        print(json.dumps(every))
        return
    table = Table(Column("experiment", no_wrap=True), Column("what it is", overflow="fold"))
    for each in found:
        rows = ", ".join(row.label for row in each.rows)
        table.add_row(each.name, f"{each.title} ({each.place})\non {', '.join(each.datasets)}: {rows}")
    Console().print(table)


def _names(text: str | None) -> list[str] | None:
    """Names with commas between them."""
    return None if text is None else split_values(text)


def _without_runs(names: list[str]) -> list[str]:
    """Experiments that are computed at once, not by runs."""
    from delome.paper.experiment import NAMES, load_experiment

    return [name for name in (NAMES if "all" in names else names) if load_experiment(name).kind == "map"]


def _selection(asked: list[str] | None, quick: bool) -> Any:
    from delome.experiment.selection import Selection

    texts = asked or ["none" if quick else SELECTIONS[0]]
    if odd := [text for text in texts if "=" not in text and text not in SELECTIONS]:
        raise ParameterError(unknown("protocol of selection", odd[0], SELECTIONS))
    return Selection.parse(texts)


def _print(documents: list[dict[str, Any]], out: Path, report: Path | None) -> None:
    from delome.paper.measured import FOLDER
    from delome.reporting.paper import experiment_parts

    console = Console()
    for found in documents:
        for part in experiment_parts(found):
            console.print(part, highlight=False, markup=False)
    written = [] if report is None else [f"report: {report}"]
    for line in [f"numbers as CSV, JSON, Markdown and LaTeX: {out / FOLDER}", *written]:
        console.print(line, highlight=False, markup=False, soft_wrap=True)
