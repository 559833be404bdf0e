from __future__ import annotations

import io
import os
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from delome.datasets import archives
from delome.datasets.archives import extract_zip

Refusal = Callable[[Callable[[], object]], str]
Zipped = Callable[[dict[str, bytes]], bytes]
MOST = 10**7


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return tmp_path / "graph.zip"


def test_members_are_unpacked_with_their_folders(
    archive: Path, zipped: Zipped, files_in: Callable[[Path], set[str]]
) -> None:
    archive.write_bytes(zipped({"a/": b"", "a/raw/x.csv": b"1,2\n", "b.txt": b"", "..c/d": b"dots in a name"}))
    extract_zip(archive, archive.parent / "out", MOST)
    out = archive.parent / "out"
    assert files_in(out) == {"a", "a/raw", "a/raw/x.csv", "b.txt", "..c", "..c/d"}
    assert (out / "a/raw/x.csv").read_bytes() == b"1,2\n"


@pytest.mark.parametrize(
    "name", ["../evil", "/evil", "a/../../evil", "..\\evil", "a\\..\\..\\evil", "C:/evil", "C:evil", "\\evil", ".."]
)
def test_a_member_outside_the_folder_is_refused_before_anything_is_written(
    name: str, archive: Path, zipped: Zipped, refusal: Refusal
) -> None:
    archive.write_bytes(zipped({"good.txt": b"x", name: b"evil"}))
    sentence = refusal(lambda: extract_zip(archive, archive.parent / "out", MOST))
    assert sentence == f"'{archive}' is refused: its member {name!r} lies outside its folder"
    assert list(archive.parent.iterdir()) == [archive]
    assert not (archive.parent.parent / "evil").exists()


def test_a_link_is_refused(archive: Path, refusal: Refusal) -> None:
    link = zipfile.ZipInfo("link")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(archive, "w") as opened:
        opened.writestr(link, "/etc")
    sentence = refusal(lambda: extract_zip(archive, archive.parent / "out", MOST))
    assert sentence == f"'{archive}' is refused: its member 'link' is a link"
    assert list(archive.parent.iterdir()) == [archive]


def test_an_archive_that_swells_is_refused(
    archive: Path, zipped: Zipped, refusal: Refusal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "_SMALL", 1000)
    archive.write_bytes(zipped({"zeros": bytes(1_000_000)}))
    sentence = refusal(lambda: extract_zip(archive, archive.parent / "out", MOST))
    assert sentence == f"'{archive}' is refused: it would unpack to 1,000,000 bytes, far more than it should"
    assert list(archive.parent.iterdir()) == [archive]


def test_a_full_disk_is_told_before_unpacking(archive: Path, zipped: Zipped, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives.shutil, "disk_usage", lambda _: SimpleNamespace(free=3))
    archive.write_bytes(zipped({"x": b"12345"}))
    with pytest.raises(OSError, match=r"unpacking graph.zip needs 5 bytes, 3 are free"):
        extract_zip(archive, archive.parent / "out", MOST)
    assert list(archive.parent.iterdir()) == [archive]


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_a_truncated_archive_is_refused(share: float, archive: Path, zipped: Zipped, refusal: Refusal) -> None:
    content = zipped({"x": os.urandom(1000), "y": os.urandom(1000)})
    archive.write_bytes(content[: int(share * len(content))])
    sentence = refusal(lambda: extract_zip(archive, archive.parent / "out", MOST))
    assert sentence.startswith(f"'{archive}' is not a readable zip archive: ")
    assert list(archive.parent.iterdir()) == [archive]


def test_a_damaged_member_is_refused_and_leaves_nothing(archive: Path, refusal: Refusal) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as opened:
        opened.writestr("first", b"whole")
        opened.writestr("second", b"y" * 100)
    archive.write_bytes(buffer.getvalue().replace(b"y" * 100, b"y" * 99 + b"z"))
    sentence = refusal(lambda: extract_zip(archive, archive.parent / "out", MOST))
    assert sentence.startswith(f"'{archive}' is not a readable zip archive: Bad CRC-32")
    assert list(archive.parent.iterdir()) == [archive]


def test_an_archive_of_more_than_the_dataset_or_of_too_many_members_is_refused(
    archive: Path, zipped: Zipped, refusal: Refusal
) -> None:
    archive.write_bytes(zipped({"x": bytes(1001)}))
    sentence = refusal(lambda: extract_zip(archive, archive.parent / "out", 1000))
    assert sentence == f"'{archive}' is refused: it would unpack to 1,001 bytes, far more than it should"
    archive.write_bytes(zipped({str(number): b"" for number in range(1001)}))
    sentence = refusal(lambda: extract_zip(archive, archive.parent / "out", 1000))
    assert sentence == f"'{archive}' is refused: it has 1,001 members"
    assert list(archive.parent.iterdir()) == [archive]
