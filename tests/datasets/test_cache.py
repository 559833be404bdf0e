from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from delome.datasets import cache
from delome.datasets.cache import cache_root, record_checksums, recorded_checksums, verified_checksums

Refusal = Callable[[Callable[[], object]], str]


def test_the_given_folder_wins_over_the_environment_and_that_over_the_platform(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DELOME_DATA", str(tmp_path / "environment"))
    assert cache_root(tmp_path / "given") == tmp_path / "given"
    assert cache_root() == tmp_path / "environment"
    monkeypatch.setenv("DELOME_DATA", "")
    assert cache_root().name == "delome"


def test_a_home_folder_is_expanded_and_a_relative_path_made_absolute(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert cache_root("~/graphs") == cache_root("graphs") == tmp_path / "graphs"


@pytest.mark.parametrize(
    ("platform", "variables", "expected"),
    [
        ("linux", {}, ".cache/delome"),
        ("linux", {"XDG_CACHE_HOME": "relative"}, ".cache/delome"),
        ("darwin", {"XDG_CACHE_HOME": "/ignored"}, "Library/Caches/delome"),
        ("win32", {}, "AppData/Local/delome"),
    ],
)
def test_the_platform_has_its_own_cache_folder(
    platform: str, variables: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("DELOME_DATA", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(cache.sys, "platform", platform)
    assert cache_root() == tmp_path / expected


@pytest.mark.parametrize(("platform", "variable"), [("linux", "XDG_CACHE_HOME"), ("win32", "LOCALAPPDATA")])
def test_the_platform_folder_can_be_configured(
    platform: str, variable: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("DELOME_DATA", raising=False)
    monkeypatch.setenv(variable, str(tmp_path))
    monkeypatch.setattr(cache.sys, "platform", platform)
    assert cache_root() == tmp_path / "delome"


def test_a_checksum_is_recorded_once_and_then_demanded(tmp_path: Path, refusal: Refusal) -> None:
    file = tmp_path / "a.npz"
    file.write_bytes(b"first")
    first = hashlib.sha256(b"first").hexdigest()
    assert verified_checksums(tmp_path, [file], {}) == {"a.npz": first}
    assert recorded_checksums(tmp_path) == {}
    record_checksums(tmp_path, {"b.npz": "0"})
    record_checksums(tmp_path, {"a.npz": first})
    assert recorded_checksums(tmp_path) == {"a.npz": first, "b.npz": "0"}
    file.write_bytes(b"second")
    second = hashlib.sha256(b"second").hexdigest()
    assert refusal(lambda: verified_checksums(tmp_path, [file], {})) == (
        f"'{file}' has SHA-256 {second[:12]}… instead of {first[:12]}…: delete it to fetch it again, "
        f"or delete '{tmp_path / 'checksums.json'}' too if the new file is wanted"
    )


def test_a_published_checksum_is_demanded_at_once(tmp_path: Path, refusal: Refusal) -> None:
    file = tmp_path / "a.npz"
    file.write_bytes(b"other")
    assert "instead of 000000000000…" in refusal(lambda: verified_checksums(tmp_path, [file], {"a.npz": "0" * 64}))


@pytest.mark.parametrize("content", ["", "[1]", "{", "null"])
def test_a_damaged_list_of_checksums_is_refused(content: str, tmp_path: Path, refusal: Refusal) -> None:
    file = tmp_path / "checksums.json"
    file.write_text(content)
    assert refusal(lambda: recorded_checksums(tmp_path)) == (
        f"'{file}' is damaged: delete it to record the checksums anew"
    )


def test_a_list_of_checksums_that_is_no_file_or_too_deep_is_refused(tmp_path: Path, refusal: Refusal) -> None:
    file = tmp_path / "checksums.json"
    sentence = f"'{file}' is damaged: delete it to record the checksums anew"
    os.mkfifo(file)
    assert refusal(lambda: recorded_checksums(tmp_path)) == sentence
    file.unlink()
    file.write_text("[" * 10_000)
    assert refusal(lambda: recorded_checksums(tmp_path)) == sentence
