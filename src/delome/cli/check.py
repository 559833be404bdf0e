"""``delome check``: the conformance suite on a method, ours or yours."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from delome.cli.app import AsJson, app
from delome.cli.described import completing
from delome.errors import DelomeError
from delome.parameters import parse_assignments

if TYPE_CHECKING:
    from delome.testing import Leaks


@app.command()
def check(
    method: Annotated[str, typer.Argument(metavar="NAME", hidden=True, autocompletion=completing("methods"))],
    assignments: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Any parameter of the method; repeatable."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check that a method keeps the contract.

    NAME is a method, or module:Class of your own.

    The contract: it learns, is deterministic, carries everything in its state, keeps what it declares, survives odd
    streams, and more. The referee's questions: does a prediction depend on which other nodes are asked about, or on
    labels of test nodes, and what was learned on their features? A method that judges batches of nodes, or learns from
    test nodes, must say so, and is named here.

    The leak report: the accuracy on a small stream when nodes are asked about together and one by one, and in the graph
    of their task and of all tasks.
    """
    from delome.learning import METHODS
    from delome.testing import leaks_of, run_checks

    kind = METHODS.importable(method)
    parameters = parse_assignments(kind, assignments or [], f"method {method}")
    outcomes = []
    console = Console(stderr=True)
    with console.status("checking") as status:
        for outcome in run_checks(kind, parameters):
            status.update(f"checking: {outcome.meaning}")
            outcomes.append(outcome)
        status.update("measuring what it owes to how it is asked")
        leaks: dict[str, Leaks | str] = {
            setting: _leaks(partial(leaks_of, kind, parameters, setting)) for setting in kind.settings
        }
    failed = [outcome for outcome in outcomes if not outcome.holds]
    if as_json:
        names = ("check", "setting", "failure", "declared", "mark")
        checks = [{name: getattr(each, name) for name in names} for each in outcomes]
        measured = {setting: found if isinstance(found, str) else asdict(found) for setting, found in leaks.items()}
        print(json.dumps({"method": method, "holds": not failed, "checks": checks, "leaks": measured}))
    else:
        table = Table(Column("", no_wrap=True), Column("setting", no_wrap=True), Column("what", overflow="fold"))
        for each in outcomes:
            found = "" if each.holds else f"\n{each.failure}"
            found += f"\ndeclared by the method, and said in every table: {each.declared}" if each.declared else ""
            table.add_row("✗" if each.failure else each.mark or "✓", each.setting, Text(each.meaning + found))
        Console().print(table)
        _print_leaks(leaks)
    if not failed and not as_json:
        declared = sorted({each.mark for each in outcomes if each.declared})
        beside = f", but what it declares ({', '.join(declared)})" if declared else ""
        print(f"{method} passes all {len(outcomes)} checks{beside}")
    if failed:
        raise DelomeError(f"{method} does not pass {len(failed)} of {len(outcomes)} checks")


def _leaks(measure: Callable[[], Leaks]) -> Leaks | str:
    """The leak report of a method, or why there is none: a stranger's may fail in any way."""
    try:
        return measure()
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def _print_leaks(leaks: dict[str, Leaks | str]) -> None:
    table = Table(
        Column("setting", no_wrap=True), Column("how it is asked", overflow="fold"), Column("accuracy", justify="right")
    )
    table.title = "What it owes to how it is asked: mean accuracy over tasks of a small stream, after the last"
    counts = {found.nodes for found in leaks.values() if not isinstance(found, str)}
    table.caption = ", ".join(f"{count} test nodes: one is {100 / count:.1f} points" for count in sorted(counts))
    for setting, found in leaks.items():
        for how, accuracy in [(Text(found), None)] if isinstance(found, str) else found.rows():
            table.add_row(setting, how, "–" if accuracy is None else f"{accuracy:.1f} %")
    Console().print(table)
