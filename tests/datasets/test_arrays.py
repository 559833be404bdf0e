from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from delome.datasets import archives
from delome.datasets.arrays import read_arrays

Refusal = Callable[[Callable[[], object]], str]


def npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def claiming(descr: str, shape: str, data: bytes = b"", version: int = 1) -> bytes:
    """An array whose header says so."""
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    return b"\x93NUMPY" + bytes([version, 0]) + len(header).to_bytes(2 if version == 1 else 4, "little") + header + data


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Writes an archive of these arrays."""

    def write(**members: bytes) -> Path:
        with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in members.items():
                archive.writestr(f"{name}.npy", content)
        return tmp_path / "a.npz"

    return write


def test_only_the_arrays_that_are_asked_for_are_read(write: Callable[..., Path]) -> None:
    file = write(x=npy(np.arange(3)), y=npy(np.array(["á", ""])), other=b"this is no array", large=npy(np.zeros(10**6)))
    found = read_arrays(file, ["x", "y", "z"], most=1000)
    assert {name: array.tolist() for name, array in found.items()} == {"x": [0, 1, 2], "y": ["á", ""]}


def test_arrays_far_larger_than_their_archive_are_refused_before_they_are_unpacked(
    write: Callable[..., Path], refusal: Refusal, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(x=npy(np.zeros(10**6)))
    assert read_arrays(file, ["x"])["x"].shape == (10**6,)
    monkeypatch.setattr(archives, "_SMALL", 1000)
    monkeypatch.setattr(np.lib.format, "read_array", lambda *_, **__: pytest.fail("unpacked"))
    sentence = (
        f"'{file}' is refused: its arrays would take 8,000,128 bytes, far more than they should: "
        "save it without compression if it is your own"
    )
    assert refusal(lambda: read_arrays(file, ["x"])) == sentence
    assert refusal(lambda: read_arrays(file, ["x"], most=8_000_000)) == sentence


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (claiming("<i8", "(1000000000000,)"), "x.npy has a header of more values than there are"),
        (claiming("<U0", "(1000000000000,)"), "x.npy has a header of more values than there are"),
        (claiming("<i8", "(2,)", bytes(15)), "x.npy has a header of more values than there are"),
        (claiming("<i8", "(-2, -1)", bytes(16)), "an array has the shape (-2, -1)"),
        (claiming("<i8", "(1,)", bytes(8), version=3), "an array has the format version (3, 0), which is not read"),
        (b"\x93NUMPY\x02\x00" + (10**8).to_bytes(4, "little"), "an array has a header of 100,000,000 bytes"),
        (b"\x93NUMPY\x01\x00", "EOF: reading array header length, expected 2 bytes got 0"),
        (b"no array", "the magic string is not correct"),
        (b"", "EOF: reading magic string"),
    ],
)
def test_a_header_that_claims_more_than_there_is_is_refused(
    content: bytes, why: str, write: Callable[..., Path], refusal: Refusal
) -> None:
    file = write(x=content)
    assert refusal(lambda: read_arrays(file, ["x"])).startswith(f"'{file}' is not a readable npz archive: {why}")


def test_headers_of_either_version_are_read(write: Callable[..., Path]) -> None:
    for version in (1, 2):
        file = write(x=claiming("<i2", "(2, 1)", b"\1\0\2\0", version))
        assert read_arrays(file, ["x"])["x"].tolist() == [[1], [2]]


def test_a_pipe_is_no_archive(tmp_path: Path, refusal: Refusal) -> None:
    os.mkfifo(tmp_path / "a.npz")
    sentence = f"'{tmp_path / 'a.npz'}' is not a readable npz archive: it is not a regular file"
    assert refusal(lambda: read_arrays(tmp_path / "a.npz", ["x"])) == sentence
