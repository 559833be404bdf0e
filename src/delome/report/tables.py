"""Tables of a run for a terminal."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from delome.experiment.results import RunResult, SeedResult
from delome.report.terminal import literal

FIXED_WIDTH, COLUMN_WIDTH = 17, 8
"""Characters of the first and last column, and of a column of accuracies."""


def accuracy_table(seed: SeedResult, width: int = 120) -> Table:
    """The accuracy matrix, coloured from red (forgotten) to green; of a long stream as many last tasks as fit."""
    rows = seed.matrix.rows
    fitting = max(1, (width - FIXED_WIDTH) // COLUMN_WIDTH)
    first = max(0, len(rows) - fitting)
    left_out = f"; tasks 0 to {first - 1} are in matrix.csv" if first else ""
    title = f"Accuracy in % on each task (columns) after learning each task (rows), seed {seed.seed}{left_out}"
    table = Table(title=title)
    table.add_column("task", justify="right", no_wrap=True)
    for j in range(first, len(rows)):
        table.add_column(str(j), justify="right", no_wrap=True)
    table.add_column("AA", justify="right", style="bold", no_wrap=True)
    for t, row in enumerate(rows):
        cells = [_coloured(value) for value in row[first:]]
        cells += [Text("")] * (len(rows) - first - len(cells))
        table.add_row(str(t), *cells, f"{seed.matrix.curve[t]:.1f}")
    return table


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
    """AA, AF, storage and protocol in words."""
    config, parameters = result.config, result.config.parameters
    aa, af = result.aa, result.af
    storage = result.seeds[-1].storage
    protocol = config.protocol
    edges = "with" if config.inter_task_edges else "without"
    several = len(result.seeds) > 1
    forgetting = "AF undefined for a single task" if af is None else _with_spread("AF", af, "+.2f", several)
    lines = [
        f"{_with_spread('AA', aa, '.2f', several)}   {forgetting}",
        f"{config.method} on {literal(config.dataset)}, {parameters['setting'].upper()}, "
        f"{parameters.get('backbone', 'no')} backbone, budget {parameters.get('budget', 'none')}, seeds {config.seeds}",
        f"{protocol['accuracy']} accuracy on {protocol['evaluated_on']}; split {protocol['split']}, "
        f"{counted(config.classes_per_task, 'class')} per task, {edges} inter-task edges",
        f"kept for old tasks: {storage.rows:,} rows, {storage.floats:,} values, {storage.bytes:,} bytes",
    ]
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


def counted(number: int, noun: str) -> str:
    """Number and noun, in the plural if there are not exactly one.

    >>> counted(1, "task"), counted(2, "class")
    ('1 task', '2 classes')
    """
    return f"{number} {noun}" if number == 1 else f"{number} {noun}{'es' if noun.endswith('s') else 's'}"


def _with_spread(name: str, value: tuple[float, float], form: str, several: bool) -> str:
    """Mean, and standard deviation if there are several seeds."""
    spread = f" ± {value[1]:.2f}" if several else ""
    return f"[bold]{name} {value[0]:{form}}{spread}[/bold]"
