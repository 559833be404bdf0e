"""What a command says on stderr while it works: bars in a terminal, lines elsewhere, and what the library logs."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console

from delome.cli.app import tell
from delome.errors import ParameterError, one_line
from delome.report.progress import RunProgress


class Lines(logging.Handler):
    """A line for each record; in a terminal bars put those above themselves."""

    def emit(self, record: logging.LogRecord) -> None:
        note = "note: " if record.levelno == logging.WARNING else ""
        tell(f"{note}{one_line(record.getMessage())}")


@contextmanager
def shown_progress(quiet: bool, verbose: bool, seeds: Sequence[int] = ()) -> Iterator[RunProgress]:
    """While this block runs, progress and what the library logs are shown as the options ask for."""
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
        with RunProgress(seeds, console, bars) as progress:
            yield progress
    finally:
        library.removeHandler(lines)
        library.setLevel(level_before)
