"""Writes reports, and figures as files for papers."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Sequence
from pathlib import Path

from delome.errors import DelomeError, one_line
from delome.persistence.files import make_folder, reporting_write_errors, write_bytes, write_text
from delome.reporting.charts import Figure
from delome.reporting.contents import Contents, read_contents
from delome.reporting.exported import exported
from delome.reporting.page import html

log = logging.getLogger(__name__)

REPORT = "report.html"


def write_report(folders: Sequence[Path], out: Path | None = None) -> tuple[Path, Contents]:
    """One HTML file about everything below folders, in the first of them unless ``out`` says where."""
    problems: list[str] = []
    contents = read_contents(folders, problems)
    for problem in problems:
        log.warning("%s", problem)
    target = folders[0] / REPORT if out is None else out
    text = html(contents)
    with reporting_write_errors(target):
        write_text(target, text)
    return target, contents


def leave_report(folder: Path) -> Path | None:
    """The report of a folder whose runs are finished: where it is, or none, and a note why, if it cannot be written."""
    try:
        return write_report([folder])[0]
    except DelomeError as error:
        log.warning("there is no report: %s", error)
    except Exception as error:  # whatever it is, what was run is finished, and must not be lost
        log.warning("there is no report: %s", one_line(f"{type(error).__name__}: {error}"))
    return None


def write_figures_to(folder: Path, figures: Iterable[Figure]) -> list[Path]:
    """Every figure as SVG and PDF."""
    import vl_convert

    written = []
    with reporting_write_errors(folder):
        make_folder(folder)
        for figure in figures:
            spec = json.dumps(exported(figure))
            forms = {
                "svg": vl_convert.vegalite_to_svg(spec, allowed_base_urls=[]).encode(),
                "pdf": vl_convert.vegalite_to_pdf(spec, allowed_base_urls=[]),
            }
            for suffix, content in forms.items():
                written.append(folder / f"{figure.file_name}.{suffix}")
                write_bytes(written[-1], content)
    return written
