from __future__ import annotations

import logging

import pytest

from delome.datasets.fetching.reading import announced


def test_what_is_happening_is_logged_once_and_passed_on_always(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "delome")
    calls: list[tuple[str, int, int | None]] = []
    progress = announced(lambda *call: calls.append(call))
    given = [("downloading x.zip", 0, 5_300_000), ("downloading x.zip", 9, 5_300_000), ("unpacking x.zip", 0, None)]
    for call in given:
        progress(*call)
    assert calls == given
    assert caplog.messages == ["downloading x.zip (5.3 MB)", "unpacking x.zip"]
