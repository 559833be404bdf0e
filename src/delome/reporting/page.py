"""A report as one HTML file: contents, style, data and the libraries that draw; it asks nothing of any server."""

from __future__ import annotations

import base64
import hashlib
import json
import shlex
from datetime import UTC, datetime
from functools import cache
from importlib import metadata, resources
from typing import TYPE_CHECKING, Any

from delome.printable import counted
from delome.reporting.bundle import vega
from delome.reporting.charts import Figure, config
from delome.reporting.contents import Contents

if TYPE_CHECKING:
    from jinja2 import Template

DIGITS = 6
"""Behind the point, of numbers that are drawn."""


def html(contents: Contents) -> str:
    """The page; everything that was named elsewhere is escaped, and only its own script may run."""
    from markupsafe import Markup  # takes a moment to import

    today = datetime.now(UTC)
    ids = {figure.name: f"figure-{number}-{figure.file_name}"[:80] for number, figure in enumerate(contents.figures)}
    script = f"/*\n{_part('licences.txt')}*/\n{vega()}\n{_part('report.js')}"
    return str(
        _template().render(
            contents=contents,
            counted=counted,
            date=f"{today.day} {today:%B %Y}",
            figures=Markup(_json({"config": config(), "figures": [_data(each, ids) for each in contents.figures]})),
            ids=ids,
            quoted_folders=shlex.join(contents.folders),
            script=Markup(script),
            script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
            style=Markup(_part("report.css")),
            version=metadata.version("delome"),
        )
    )


@cache
def _template() -> Template:
    from jinja2 import Environment

    return Environment(autoescape=True, keep_trailing_newline=True).from_string(_part("report.html"))


def _part(name: str) -> str:
    return (resources.files("delome.reporting") / "template" / name).read_text(encoding="utf-8")


def _data(figure: Figure, ids: dict[str, str]) -> dict[str, Any]:
    """A figure for the script; its description is read out by a screen reader."""
    described = figure.spec | {"description": f"{figure.title}. {figure.caption}".strip()}
    return {
        "id": ids[figure.name],
        "spec": described,
        "limits": figure.limits,
        "shared_limits": figure.shared_limits,
    }


def _json(content: Any) -> str:
    """JSON that can stand in a script element: nothing in it ends the element."""
    text = json.dumps(_rounded(content), allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _rounded(part: Any) -> Any:
    if isinstance(part, float):
        return round(part, DIGITS)
    if isinstance(part, dict):
        return {name: _rounded(value) for name, value in part.items()}
    return [_rounded(each) for each in part] if isinstance(part, list | tuple) else part
