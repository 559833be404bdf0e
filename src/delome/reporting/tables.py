"""Tables of a run for a terminal."""

from __future__ import annotations

from typing import Any

from rich.table import Table
from rich.text import Text

from delome.experiment.results import RunResult
from delome.printable import counted
from delome.reporting.terminal import literal
from delome.streams.protocol import TEST_GRAPHS

ASKED_TOGETHER = "this method must be asked about the nodes of one task together: not comparable with others"
LEARNED_FROM_ALL = "this method has learned from features of test nodes too: compare with care"
MOST_NAMES = 20
FIXED_WIDTH, COLUMN_WIDTH, GAP_WIDTH = 25, 8, 4
"""Characters of the columns beside the matrix, of a column of accuracies, and of one that stands for many."""


def accuracy_table(result: RunResult, width: int = 120) -> Table:
    """The accuracy matrix (mean over seeds), coloured from red (forgotten) to green, with AA and AF after each task;
    of a long stream as many of the first and last tasks as fit."""
    matrix = result.matrix
    tasks = len(matrix.rows)
    first, last = _shown(tasks, width)
    seeds = f"mean of {len(result.seeds)} seeds" if len(result.seeds) > 1 else f"seed {result.seeds[0].seed}"
    left_out = f"; tasks {first} to {last - 1} are in matrix.csv" if first < last else ""
    table = Table(title=f"Accuracy in % on each task (columns) after learning each task (rows), {seeds}{left_out}")
    gap = ["…"] if first < last else []
    for name in ("task", *map(str, range(first)), *gap, *map(str, range(last, tasks))):
        table.add_column(name, justify="right", no_wrap=True)
    for name in ("AA", "AF"):
        table.add_column(name, justify="right", style="bold", no_wrap=True)
    for t, (row, aa, af) in enumerate(zip(matrix.rows, matrix.curve, matrix.af_curve, strict=True)):
        cells = [_coloured(value) for value in row] + [Text("")] * (tasks - len(row))
        hidden = [Text("…" if len(row) > first else "")] if gap else []
        forgetting = "–" if af is None else f"{af:+.1f}"
        table.add_row(str(t), *cells[:first], *hidden, *cells[last:], f"{aa:.1f}", forgetting)
    return table


def _shown(tasks: int, width: int) -> tuple[int, int]:
    """How many first tasks fit, and where the last ones begin.

    >>> _shown(5, 80), _shown(35, 80)
    ((5, 5), (3, 32))
    """
    if tasks <= (width - FIXED_WIDTH) // COLUMN_WIDTH:
        return tasks, tasks
    fitting = max(2, (width - FIXED_WIDTH - GAP_WIDTH) // COLUMN_WIDTH)
    return fitting // 2, tasks - (fitting - fitting // 2)


def _coloured(value: float) -> Text:
    red, green = (255, round(255 * value / 50)) if value < 50 else (round(255 * (100 - value) / 50), 200)
    return Text(f"{value:.1f}", style=f"rgb({red},{green},0)")


def phase_table(result: RunResult) -> Table:
    """Seconds by phase."""
    table = Table(title="Seconds, all seeds")
    total = sum(result.seconds.values())
    for phase in result.seconds:
        table.add_column(phase, justify="right")
    table.add_column("total", justify="right", style="bold")
    table.add_row(*(f"{seconds:.1f}" for seconds in result.seconds.values()), f"{total:.1f}")
    return table


def summary_lines(result: RunResult) -> list[str]:
    """Accuracies, storage and protocol in words."""
    config, parameters = result.config, result.config.parameters
    storage = result.seeds[-1].storage
    protocol = config.protocol
    edges = TEST_GRAPHS[config.test_graph]
    arrival = f"{counted(config.classes_per_task, 'class')} per task"
    if config.stream_kind != "classes":
        arrival = f"stream {literal(config.stream_kind)}"
    forgetting = "AF undefined for a single task" if result.af is None else _bold(_spread(result, "AF", "af", "+.2f"))
    beside = {"micro AA": "micro_aa", "anytime accuracy": "anytime", "learning accuracy": "learning"}
    lines = [
        f"{_bold(_spread(result, 'AA', 'aa'))}   {forgetting}",
        "   ".join(_spread(result, name, metric) for name, metric in beside.items()),
        f"{config.method} on {literal(config.dataset)}, {parameters['setting'].upper()}, "
        f"{config.backbone or 'no'} backbone, budget {config.budget or 'none'}, seeds {config.seeds}",
        _graph_line(result.stream["graph"]),
        f"{protocol['accuracy']} accuracy on {protocol['evaluated_on']} ({protocol['test_nodes']}); "
        f"split: {result.stream['split']['kind']}; "
        f"{arrival}, {edges}",
        f"kept for old tasks: {storage.rows:,} rows, {storage.floats:,} values, {storage.bytes:,} bytes",
    ]
    if result.spread("forward") is not None:
        lines.append(f"{_spread(result, 'forward transfer', 'forward')} on the next task before it is learned")
    if result.names:
        named = [f"{number} {literal(name)}" for number, name in enumerate(result.names)]
        lines.append(f"tasks: {', '.join(named[:MOST_NAMES])}{', …' if len(named) > MOST_NAMES else ''}")
    if config.asked == "together":
        lines.append(ASKED_TOGETHER)
    if config.learned_from == "all nodes" and not config.inductive:
        lines.append(LEARNED_FROM_ALL)
    if "relative_loss" in result.reports:
        lossless = 100 * (1 - result.reports["relative_loss"])
        lines.append(
            f"the memory reproduces {lossless:.2f} % of the classes' expected training gradients (squared norm)"
        )
    if result.dropped:
        shown = ", ".join(f"{label} ({why})" for label, why in list(result.dropped.items())[:3])
        lines.append(
            f"{counted(len(result.dropped), 'class')} left out: {shown}" + ("…" if len(result.dropped) > 3 else "")
        )
    return lines


def _graph_line(graph: dict[str, Any]) -> str:
    directions = "taken in both directions" if graph["directions"] == "both" else "directed as given"
    weights = ", weighted" if graph["weighted"] else ""
    return f"{graph['nodes']:,} nodes, {graph['edges']:,} edges ({directions}{weights}), {graph['features']:,} features"


def _spread(result: RunResult, name: str, metric: str, form: str = ".2f") -> str:
    """Mean, and standard deviation if there are several seeds."""
    found = result.spread(metric)
    assert found is not None
    spread = f" ± {found[1]:.2f}" if len(result.seeds) > 1 else ""
    return f"{name} {found[0]:{form}}{spread}"


def _bold(text: str) -> str:
    return f"[bold]{text}[/bold]"
