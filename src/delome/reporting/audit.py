"""The tables of an audit."""

from __future__ import annotations

from collections.abc import Iterator

from rich.table import Column, Table

from delome.privacy import Audit
from delome.privacy.audit import ENOUGH, LEAK, NO_LEAK, PLANTS

SHORT = {LEAK: "leak", NO_LEAK: "none found"}
HEADS = ("value", "99 % interval", "control", "power")
TITLES = {
    "raw": "memory rows against features",
    "propagated": "memory rows against propagated features",
    "model": "answers of the model",
    "canaries": "planted nodes, of one more run",
}


def audit_tables(audit: Audit) -> Iterator[Table]:
    """A line for each attack, by what was attacked."""
    for where, found in audit.findings.items():
        table = Table(
            Column("attack", overflow="fold"),
            *(Column(name, justify="right", no_wrap=True) for name in HEADS),
            Column("found", no_wrap=True),
            title=TITLES[where],
            title_justify="left",
        )
        for name, each in found.items():
            measure = each.measure
            interval = f"{measure.low:.3f} … {measure.high:.3f}"
            verdict = SHORT.get(each.verdict, each.verdict)
            numbers = f"{measure.value:.3f}", interval, f"{measure.control:.3f}", f"{each.power:.0%}"
            table.add_row(name, *numbers, verdict)
        yield table


def audit_lines(audit: Audit) -> list[str]:
    """What stands below the tables."""
    rows = f"{audit.memory_rows} memory rows, " if audit.memory_rows else ""
    lines = [
        f"{rows}{audit.training_nodes} training nodes, {audit.held_out_nodes} held-out nodes as controls",
        f"power: share of {PLANTS} planted leaks that the attack finds; below {ENOUGH:.0%} it cannot tell",
        *audit.notes,
        f"{audit.method}: {audit.summary}",
    ]
    if audit.privacy is not None:
        lines.append(f"guarantee: {audit.privacy['guarantee']} ({audit.privacy['adjacency']})")
        lines.append(f"it covers {audit.privacy['covers']}")
    return lines
