"""``delome check``: the conformance suite on a method, ours or yours."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from delome.cli.app import AsJson, app
from delome.cli.described import completing
from delome.errors import DelomeError
from delome.parameters import parse_assignments


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
    labels of test nodes?
    """
    from delome.learning import METHODS
    from delome.testing import run_checks

    kind = METHODS.importable(method)
    parameters = parse_assignments(kind, assignments or [], f"method {method}")
    outcomes = []
    console = Console(stderr=True)
    with console.status("checking") as status:
        for outcome in run_checks(kind, parameters):
            status.update(f"checking: {outcome.meaning}")
            outcomes.append(outcome)
    failed = [outcome for outcome in outcomes if not outcome.holds]
    if as_json:
        checks = [{"check": each.check, "setting": each.setting, "failure": each.failure} for each in outcomes]
        print(json.dumps({"method": method, "holds": not failed, "checks": checks}))
    else:
        table = Table(Column("", no_wrap=True), Column("setting", no_wrap=True), Column("what", overflow="fold"))
        for each in outcomes:
            found = "" if each.holds else f"\n{each.failure}"
            table.add_row("✓" if each.holds else "✗", each.setting, Text(f"{each.meaning}{found}"))
        Console().print(table)
    if failed:
        raise DelomeError(f"{method} does not pass {len(failed)} of {len(outcomes)} checks")
