"""What a command says on stderr while it works: bars in a terminal, lines elsewhere, and what the library logs."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

from rich.console import Console

from delome.cli.app import tell
from delome.errors import ParameterError, one_line

if TYPE_CHECKING:
    from delome.reporting.progress import RunProgress, SweepProgress


class Lines(logging.Handler):
    """A line for each record; in a terminal bars put those above themselves."""

    def emit(self, record: logging.LogRecord) -> None:
        note = "note: " if record.levelno == logging.WARNING else ""
        tell(f"{note}{one_line(record.getMessage())}")


@contextmanager
def shown_progress(quiet: bool, verbose: bool) -> Iterator[RunProgress]:
    """While this block runs, progress and what the library logs are shown as the options ask for."""
    from delome.reporting.progress import RunProgress

    with _logged(quiet, verbose) as (console, bars):
        yield RunProgress(console, bars)


@contextmanager
def shown_sweep(quiet: bool, verbose: bool) -> Iterator[SweepProgress]:
    """The same for a command with many runs."""
    from delome.reporting.progress import SweepProgress

    with _logged(quiet, verbose) as (console, bars):
        progress = SweepProgress(console, bars)
        with progress.live if bars else nullcontext():
            yield progress


@contextmanager
def _logged(quiet: bool, verbose: bool) -> Iterator[tuple[Console, bool]]:
    """Shows what the library logs, and says where progress is to be shown, and whether."""
    if quiet and verbose:
        raise ParameterError("--quiet and --verbose exclude each other: leave out one of them")
    console = Console(stderr=True)
    bars = console.is_interactive and not quiet
    level = logging.DEBUG if verbose else logging.WARNING if bars or quiet else logging.INFO
    library, lines = logging.getLogger("delome"), Lines(level)
    level_before = library.level
    library.setLevel(level)
    library.addHandler(lines)
    try:
        yield console, bars
    finally:
        library.removeHandler(lines)
        library.setLevel(level_before)
