"""The JavaScript that draws a page's figures: Vega, Vega-Lite and Vega-Embed, as vl-convert bundles them without a
network. Bundling takes a second, so that the bundle is kept in the platform's cache folder."""

from __future__ import annotations

import re
from contextlib import suppress
from functools import cache
from importlib import metadata
from pathlib import Path

from delome.datasets.fetching.cache import platform_cache
from delome.errors import DelomeError, PersistenceError
from delome.persistence.documents import read_document, write_document
from delome.persistence.files import make_folder

KIND = "bundle of JavaScript"


@cache
def vega() -> str:
    """The libraries as one script that can stand in a page."""
    kept = _place()
    if kept is not None:
        with suppress(PersistenceError, KeyError):
            return str(read_document(kept, KIND)["script"])
    script = _bundled()
    if kept is not None:
        with suppress(OSError, PersistenceError):
            make_folder(kept.parent)
            write_document(kept, KIND, {"script": script})
    return script


def _bundled() -> str:
    import vl_convert

    bundle = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    script = bundle.replace("\r", "")
    if re.search(r"</script|<!--", script, re.IGNORECASE):
        raise DelomeError("this version of vl-convert cannot be put into a page: install the one in constraints.txt")
    return script


def _place() -> Path | None:
    with suppress(RuntimeError, OSError):  # an unknown home
        return platform_cache() / "delome" / "report" / f"vega-{metadata.version('vl-convert-python')}.json"
    return None
