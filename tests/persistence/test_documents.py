from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from delome.errors import PersistenceError
from delome.persistence.documents import FORMAT, read_document, write_document


def test_a_document_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    content = {"x": [0.1, 1e-300, None, True, "ä"], "nested": {"y": 2**70}}
    write_document(tmp_path / "a.json", "example", content)
    assert read_document(tmp_path / "a.json", "example") == content
    raw = json.loads((tmp_path / "a.json").read_text())
    assert raw["kind"] == "example" and raw["format"] == FORMAT and len(raw["sha256"]) == 64


def changed(file: Path, **changes: object) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"x": 2}, "is damaged: its content does not have the checksum it was written with"),
        ({"sha256": "0" * 64}, "is damaged"),
        ({"sha256": None}, "is damaged"),
        ({"kind": "other"}, "is not a example of delome: it is damaged or of another kind"),
        (
            {"format": FORMAT + 1},
            f"has format '{FORMAT + 1}', and this version of delome reads {FORMAT}: use the version that wrote it",
        ),
        ({"format": None}, "has format 'None'"),
    ],
)
def test_a_document_that_is_not_what_was_written_is_refused(
    changes: dict[str, object], sentence: str, tmp_path: Path
) -> None:
    write_document(tmp_path / "a.json", "example", {"x": 1})
    changed(tmp_path / "a.json", **changes)
    with pytest.raises(PersistenceError) as error:
        read_document(tmp_path / "a.json", "example")
    assert sentence in str(error.value)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"3", b"\xff\xfe", b"[" * 100_000, b'{"kind": "example"}'])
def test_what_is_no_document_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(PersistenceError):
        read_document(tmp_path / "a.json", "example")


def test_a_missing_document_and_a_folder_in_its_place_are_told(tmp_path: Path) -> None:
    with pytest.raises(PersistenceError, match=r"a.json' does not exist, so .* holds no example of delome"):
        read_document(tmp_path / "a.json", "example")
    (tmp_path / "a.json").mkdir()
    with pytest.raises(PersistenceError, match=r"cannot read .*: Is a directory"):
        read_document(tmp_path / "a.json", "example")


@pytest.mark.parametrize("depth", [60, 900, 10_000])
def test_a_document_that_is_nested_too_deeply_is_refused(depth: int, tmp_path: Path) -> None:
    body = f'"kind": "example", "format": {FORMAT}, "x": {"[" * depth}{"]" * depth}'
    (tmp_path / "a.json").write_text(f"{{{body}}}")
    with pytest.raises(PersistenceError, match="is not a example of delome: it is damaged or of another kind"):
        read_document(tmp_path / "a.json", "example")


def test_a_document_that_is_a_pipe_or_too_large_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.json")
    with pytest.raises(PersistenceError, match=r"cannot read '.*a.json': it is not a regular file"):
        read_document(tmp_path / "a.json", "example")
    write_document(tmp_path / "b.json", "example", {"x": "y" * 1000})
    with pytest.raises(
        PersistenceError, match=r"cannot read '.*b.json': it has 1,\d+ bytes, and no more than 1,000 are"
    ):
        read_document(tmp_path / "b.json", "example", 1000)
