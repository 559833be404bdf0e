from __future__ import annotations

import sys
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from delome.errors import DelomeError
from delome.reporting import bundle


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder."""
    monkeypatch.setattr(bundle, "platform_cache", lambda: tmp_path)
    return tmp_path


class Bundler:
    """Bundles at once, and counts how often it is asked."""

    def __init__(self, script: str) -> None:
        self.script, self.asked = script, 0

    def javascript_bundle(self, snippet: str) -> str:
        self.asked += 1
        return self.script + snippet


def ask(monkeypatch: pytest.MonkeyPatch, bundler: Any) -> str:
    monkeypatch.setitem(sys.modules, "vl_convert", bundler)
    bundle.vega.cache_clear()
    try:
        return bundle.vega()
    finally:
        bundle.vega.cache_clear()


def test_the_bundle_is_made_once_and_anew_if_what_was_kept_is_damaged(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundler = Bundler("draw();\r\n")
    first = ask(monkeypatch, bundler)
    assert first.startswith("draw();\nwindow.vegaEmbed")
    assert ask(monkeypatch, bundler) == first and bundler.asked == 1
    (kept,) = (cache / "delome/report").iterdir()
    kept.write_text(kept.read_text().replace("draw", "steal"))
    assert ask(monkeypatch, bundler) == first and bundler.asked == 2


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(bundle, "platform_cache", lambda: tmp_path / "file")
    assert "draw" in ask(monkeypatch, Bundler("draw();"))


@pytest.mark.parametrize("script", ["'</script>'", "'</SCRIPT>'", "x<!--y"])
def test_a_script_that_would_end_its_element_is_refused(
    script: str, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(DelomeError, match="cannot be put into a page"):
        ask(monkeypatch, Bundler(script))


def test_the_real_bundle_asks_no_server_and_is_small() -> None:
    script = bundle.vega()
    assert 500_000 < len(script) < 1_500_000 and "vegaEmbed" in script


@pytest.mark.parametrize(
    ("trace", "notice"),
    [
        ("vega-embed", "Vega-Lite, Vega-Embed: Copyright (c) 2015, University of Washington Interactive Data Lab"),
        ("fivethirtyeight", "vega-themes: Copyright (c) 2016, University of Washington Interactive Data Lab"),
        ("mollweide", "Mike Bostock"),
        ("TopoJSON", "topojson-client: Copyright 2012-2019 Michael Bostock"),
        ("SEMVER_SPEC_VERSION", "Isaac Z. Schlueter and Contributors"),
        ("JsonPatchError", "Joachim Wester"),
        ("maxLength", "Simon Lydell"),
        ("134217729", "robust-predicates"),
        ("8dd3c7", "Cynthia Brewer"),
    ],
)
def test_what_the_bundle_holds_has_a_notice(trace: str, notice: str) -> None:
    notices = (resources.files("delome.reporting") / "template/licences.txt").read_text(encoding="utf-8")
    assert trace in bundle.vega()
    assert notice in " ".join(notices.split()) and "*/" not in notices
