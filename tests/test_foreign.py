from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

from delome.foreign import MOST_NESTED, open_regular, parse_json, read_json, read_regular, sha256_of


@pytest.fixture(params=["pipe", "device", "link to a device"])
def endless(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """What can be opened like a file, and never ends or never begins."""
    place = tmp_path / "a.json"
    if request.param == "pipe":
        os.mkfifo(place)
    elif request.param == "link to a device":
        place.symlink_to("/dev/zero")
    else:
        place = Path("/dev/zero")
    return place


def test_what_is_no_regular_file_is_not_read(endless: Path) -> None:
    for read in (open_regular, read_json, sha256_of):
        with pytest.raises(OSError, match="it is not a regular file"):
            read(endless)


def test_a_folder_is_not_read_and_a_link_to_a_file_is(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError, match="Is a directory"):
        open_regular(tmp_path)
    (tmp_path / "file").write_bytes(b"content")
    (tmp_path / "link").symlink_to("file")
    assert read_regular(tmp_path / "link", 7) == b"content"
    assert sha256_of(tmp_path / "link") == hashlib.sha256(b"content").hexdigest()


def test_a_file_that_is_larger_than_expected_is_refused_before_it_is_read(tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb") as file:
        file.truncate(10**12)  # takes no space
    with pytest.raises(OSError, match=r"it has 1,000,000,000,000 bytes, and no more than 33,554,432 are expected"):
        read_json(tmp_path / "file")


@pytest.mark.parametrize("opening", ["[", '{"a":'])
@pytest.mark.parametrize("depth", [MOST_NESTED + 1, 900, 10_000, 1_000_000])
def test_json_that_is_nested_too_deeply_is_refused(opening: str, depth: int) -> None:
    closing = "]" if opening == "[" else "}"
    with pytest.raises(ValueError, match="it is nested too deeply"):
        parse_json(f"{opening * depth}1{closing * depth}".encode())


def test_json_that_is_not_nested_too_deeply_is_read() -> None:
    content: object = 1
    for _ in range(MOST_NESTED - 1):
        content = [content, {}]
    assert parse_json(json.dumps(content).encode()) == content


@pytest.mark.parametrize("text", [b"", b"{", b"\xff", b"1" * 5000])
def test_what_is_no_json_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_json(text)
