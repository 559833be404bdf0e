from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from delome.datasets.download import ATTEMPTS, download

Refusal = Callable[[Callable[[], object]], str]

CONTENT = b"PK\x03\x04" + np.random.default_rng(0).bytes(200_000)


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "graph.zip"


@pytest.fixture
def serving(server: Any) -> Any:
    server.files["/graph.zip"] = CONTENT
    return server


def part(target: Path) -> Path:
    return target.with_name("graph.zip.part")


def by_hand(target: Path) -> str:
    return f"put graph.zip into '{target.parent}' by hand"


@pytest.mark.parametrize("with_length", [True, False])
def test_a_file_arrives_as_it_was_sent(with_length: bool, serving: Any, target: Path) -> None:
    serving.with_length = with_length
    download(f"{serving.url}/graph.zip", target)
    assert target.read_bytes() == CONTENT
    assert not part(target).exists()
    assert serving.asked == [""]


def test_progress_grows_to_the_whole_size(serving: Any, target: Path) -> None:
    seen: list[tuple[str, int, int | None]] = []
    download(f"{serving.url}/graph.zip", target, progress=lambda *step: seen.append(step))
    assert {(activity, total) for activity, _, total in seen} == {("downloading graph.zip", len(CONTENT))}
    done = [amount for _, amount, _ in seen]
    assert done == sorted(done) and done[-1] == len(CONTENT)


def test_a_lost_connection_is_taken_up_where_it_broke(serving: Any, target: Path) -> None:
    serving.drops = [50_000, 70_000]
    download(f"{serving.url}/graph.zip", target)
    assert target.read_bytes() == CONTENT
    assert serving.asked == ["", "bytes=50000-", "bytes=120000-"]


def test_a_server_without_ranges_is_asked_for_the_whole_file_again(serving: Any, target: Path) -> None:
    serving.drops, serving.with_ranges = [50_000], False
    download(f"{serving.url}/graph.zip", target)
    assert target.read_bytes() == CONTENT
    assert serving.asked == ["", "bytes=50000-"]


def test_what_an_earlier_call_left_is_continued(serving: Any, target: Path, refusal: Refusal) -> None:
    serving.drops = [1_000] * ATTEMPTS
    sentence = refusal(lambda: download(f"{serving.url}/graph.zip", target))
    assert sentence == (
        f"the download of '{serving.url}/graph.zip' stopped after 5,000 of {len(CONTENT):,} bytes: "
        f"try again to continue it, or {by_hand(target)}"
    )
    assert part(target).read_bytes() == CONTENT[:5_000] and not target.exists()
    serving.asked.clear()
    download(f"{serving.url}/graph.zip", target)
    assert target.read_bytes() == CONTENT and not part(target).exists()
    assert serving.asked == ["bytes=5000-"]


def test_a_part_that_is_already_whole_needs_no_more_bytes(serving: Any, target: Path) -> None:
    part(target).write_bytes(CONTENT)
    download(f"{serving.url}/graph.zip", target)
    assert target.read_bytes() == CONTENT and not part(target).exists()


def test_a_part_longer_than_the_file_is_thrown_away(serving: Any, target: Path) -> None:
    part(target).write_bytes(CONTENT + b"more")
    download(f"{serving.url}/graph.zip", target)
    assert target.read_bytes() == CONTENT and not part(target).exists()


def test_a_server_that_sends_another_range_is_asked_for_the_whole_file(serving: Any, target: Path) -> None:
    serving.shift = 10
    part(target).write_bytes(CONTENT[:100])
    download(f"{serving.url}/graph.zip", target)
    assert target.read_bytes() == CONTENT
    assert serving.asked == ["bytes=100-", ""]


def test_a_missing_file_on_the_server_is_refused(server: Any, target: Path, refusal: Refusal) -> None:
    assert refusal(lambda: download(f"{server.url}/graph.zip", target)) == (
        f"cannot download '{server.url}/graph.zip' (the server answered 404 Not Found): try again or {by_hand(target)}"
    )
    assert list(target.parent.iterdir()) == []


def test_without_network_the_file_and_its_place_are_named(server: Any, target: Path, refusal: Refusal) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/graph.zip"
        sentence = refusal(lambda: download(url, target))
    assert sentence == f"cannot download '{url}' (Connection refused): try again or {by_hand(target)}"
    assert list(target.parent.iterdir()) == []


def test_a_silent_server_is_given_up(server: Any, target: Path, refusal: Refusal) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/graph.zip"
        sentence = refusal(lambda: download(url, target, timeout=0.05))
    assert sentence == f"cannot download '{url}' (timed out): try again or {by_hand(target)}"


@pytest.mark.parametrize(
    ("content", "kind", "what"),
    [
        (b"<!DOCTYPE html><title>Log in</title>", "text/html; charset=utf-8", "a web page"),
        (b"<html></html>", "application/zip", "a web page"),
        (b"moved to a new place", "text/plain", "something else"),
        (b"", "application/zip", "something else"),
    ],
)
@pytest.mark.parametrize("already", [0, 40_000])
def test_a_page_in_place_of_an_archive_is_refused_and_undoes_nothing(
    content: bytes, kind: str, what: str, already: int, serving: Any, target: Path, refusal: Refusal
) -> None:
    serving.files["/graph.zip"], serving.headers, serving.with_ranges = content, {"Content-Type": kind}, False
    if already:
        part(target).write_bytes(CONTENT[:already])
    assert refusal(lambda: download(f"{serving.url}/graph.zip", target)) == (
        f"'{serving.url}/graph.zip' is not an archive, the server sent {what} instead: {by_hand(target)}"
    )
    assert (part(target).stat().st_size if part(target).exists() else 0) == already
    assert not target.exists()


@pytest.mark.parametrize("url", ["file:///etc/hostname", "ftp://127.0.0.1/graph.zip", "graph.zip"])
def test_only_web_addresses_are_fetched(url: str, target: Path, refusal: Refusal) -> None:
    assert refusal(lambda: download(url, target)) == (
        f"cannot download '{url}': only http and https addresses are fetched"
    )


def test_a_redirection_is_followed_with_the_range(serving: Any, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = serving.answer

    def redirecting(request: Any) -> None:
        if request.path == "/moved.zip":
            request.send_response(302)
            request.send_header("Location", "/graph.zip")
            request.send_header("Content-Length", "0")
            request.end_headers()
        else:
            answer(request)

    monkeypatch.setattr(serving, "answer", redirecting)
    part(target).write_bytes(CONTENT[:100])
    download(f"{serving.url}/moved.zip", target)
    assert target.read_bytes() == CONTENT
    assert serving.asked == ["bytes=100-"]


def test_a_redirection_to_a_local_file_is_refused(
    serving: Any, target: Path, refusal: Refusal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def redirecting(request: Any) -> None:
        request.send_response(302)
        request.send_header("Location", "file:///etc/hostname")
        request.send_header("Content-Length", "0")
        request.end_headers()

    monkeypatch.setattr(serving, "answer", redirecting)
    assert "cannot download" in refusal(lambda: download(f"{serving.url}/graph.zip", target))
    assert list(target.parent.iterdir()) == []


def test_a_part_that_is_a_pipe_is_refused(server: Any, tmp_path: Path, refusal: Refusal) -> None:
    os.mkfifo(tmp_path / "a.zip.part")
    assert refusal(lambda: download(f"{server.url}/a.zip", tmp_path / "a.zip")) == (
        f"'{tmp_path / 'a.zip.part'}' is not a regular file: remove it and try again"
    )
