"""A report of runs and experiments in one call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Report:
    """Where a report was written, and what it is about."""

    file: Path
    runs: int
    experiments: list[str]
    figures: list[Path]

    def as_dict(self) -> dict[str, Any]:
        """The one JSON document of the command."""
        return {
            "report": str(self.file),
            "runs": self.runs,
            "experiments": self.experiments,
            "figures": [str(figure) for figure in self.figures],
        }


def report(
    *folders: str | Path | Sequence[str | Path], out: str | Path | None = None, figures: str | Path | None = None
) -> Report:
    """Writes one HTML file about all runs and experiments below folders (``runs`` if none is given).

    The file is ``report.html`` in the first folder, or ``out``. It needs no network. ``figures`` is a folder for every
    figure of it as SVG and PDF.
    """
    from delome.reporting.writing import write_figures_to, write_report  # imports all that runs need

    places = [Path(each) for part in folders for each in ([part] if isinstance(part, str | Path) else part)]
    file, contents = write_report(places or [Path("runs")], None if out is None else Path(out))
    drawn = [] if figures is None else write_figures_to(Path(figures), contents.figures)
    return Report(file, contents.runs, [str(each.found["name"]) for each in contents.experiments], drawn)
