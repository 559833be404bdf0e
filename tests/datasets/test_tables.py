from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from delome.datasets import tables
from delome.datasets.tables import gunzipped, read_table

Refusal = Callable[[Callable[[], object]], str]


@pytest.fixture
def write(tmp_path: Path) -> Callable[[bytes], Path]:
    def write(text: bytes) -> Path:
        file = tmp_path / "table.csv.gz"
        file.write_bytes(gzip.compress(text))
        return file

    return write


def rows_of(file: Path, kind: str, columns: int | None = None) -> list[list[float]]:
    return [row for block in read_table(file, kind, columns, 10**6) for row in block.tolist()]


def test_numbers_are_read_line_by_line(write: Callable[[bytes], Path]) -> None:
    assert rows_of(write(b"1,2\n3,-4\n"), "integer") == [[1, 2], [3, -4]]
    assert rows_of(write(b"0.1,-2e-05\n3,.5\n"), "real") == [[0.1, -2e-05], [3.0, 0.5]]


@pytest.mark.parametrize("text", [b"1,2\n3,4", b"1,2\r\n3,4\r\n"])
def test_line_ends_do_not_matter(text: bytes, write: Callable[[bytes], Path]) -> None:
    assert rows_of(write(text), "integer") == [[1, 2], [3, 4]]


def test_an_empty_table_has_no_rows(write: Callable[[bytes], Path]) -> None:
    assert rows_of(write(b""), "integer", 2) == []


@pytest.mark.parametrize("block", [24, 25, 64, 1000])
def test_blocks_of_any_size_give_the_same_rows(
    block: int, write: Callable[[bytes], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "_BLOCK", block)
    expected = np.random.default_rng(0).integers(10**9, size=(50, 2))
    file = write(b"".join(b"%d,%d\n" % (a, b) for a, b in expected.tolist()))
    assert rows_of(file, "integer", 2) == expected.tolist()


@given(
    values=arrays(np.float64, st.tuples(st.integers(1, 6), st.integers(1, 5)), elements=st.floats(width=64)).filter(
        lambda values: bool(np.isfinite(values).all())
    )
)
def test_every_float_is_read_exactly(values: np.ndarray, tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("exact") / "table.csv.gz"
    file.write_bytes(gzip.compress("".join(",".join(map(repr, row)) + "\n" for row in values.tolist()).encode()))
    assert rows_of(file, "real") == values.tolist()


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (b"1,2\n3\n", "integer"),
        (b"1\n2,3,4\n", "integer"),
        (b"1,2\n\n3,4\n", "integer"),
        (b"1,2\n3,x\n", "real"),
        (b"1,2\n3,\n", "real"),
        (b"1,2\n3,-\n", "real"),
        (b"1,2 3\n", "real"),
        (b"1,nan\n", "real"),
        (b"a,b\n", "integer"),
        (b"1,1.5\n", "integer"),
        (b"1,100000000000000000000\n", "integer"),
    ],
)
def test_what_is_no_table_is_refused(text: bytes, kind: str, write: Callable[[bytes], Path], refusal: Refusal) -> None:
    file = write(text)
    what = "whole numbers" if kind == "integer" else "numbers"
    assert refusal(lambda: rows_of(file, kind, 2)) == (
        f"'{file}' is not a table: every line must hold 2 {what} and nothing else"
    )


def test_a_truncated_file_is_refused(write: Callable[[bytes], Path], refusal: Refusal) -> None:
    file = write(b"1,2\n" * 1000)
    file.write_bytes(file.read_bytes()[:-10])
    assert refusal(lambda: rows_of(file, "integer")).startswith(f"'{file}' is damaged or incomplete: ")


def test_a_damaged_file_is_refused(write: Callable[[bytes], Path], refusal: Refusal) -> None:
    file = write(b"".join(b"%d,%d\n" % (i, i * i) for i in range(1000)))
    content = bytearray(file.read_bytes())
    content[200:260] = bytes(60)
    file.write_bytes(content)
    assert refusal(lambda: rows_of(file, "integer")).startswith(f"'{file}' is ")


def test_a_file_that_is_not_compressed_is_refused(tmp_path: Path, refusal: Refusal) -> None:
    file = tmp_path / "table.csv.gz"
    file.write_text("1,2\n")
    assert refusal(lambda: rows_of(file, "integer")).startswith(
        f"'{file}' is damaged or incomplete: it was not compressed by gzip"
    )


def test_an_endless_line_is_refused(
    write: Callable[[bytes], Path], refusal: Refusal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "_BLOCK", 10)
    file = write(b"1" * 100)
    assert refusal(lambda: rows_of(file, "integer")).startswith(f"'{file}' is not a table of numbers: it has a line of")


def test_progress_counts_the_compressed_bytes(write: Callable[[bytes], Path]) -> None:
    file, seen = write(b"1,2\n" * 10), []
    list(read_table(file, "integer", 2, 20, lambda *step: seen.append(step)))
    assert seen == [("reading table.csv.gz", file.stat().st_size, file.stat().st_size)]


def test_text_beyond_what_so_many_numbers_can_take_is_refused(
    write: Callable[[bytes], Path], refusal: Refusal, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(b"1,2\n" * 1_000_000)
    unpacked = []
    monkeypatch.setattr(tables, "_parse", lambda file, text, kind, columns: unpacked.append(len(text)))
    assert refusal(lambda: list(read_table(file, "integer", 2, 20))) == (
        f"'{file}' is refused: it holds more than 640 bytes of text"
    )
    assert unpacked == []


def test_archives_that_follow_each_other_and_long_names_in_their_headers_are_read(tmp_path: Path) -> None:
    file = tmp_path / "table.csv.gz"
    plain = gzip.compress(b"1,2\n")
    named = plain[:3] + b"\x08" + plain[4:10] + b"x" * 200_000 + b"\0" + plain[10:]
    empty = gzip.compress(b"")
    file.write_bytes(named + empty * 3 + plain)
    assert rows_of(file, "integer") == [[1, 2], [1, 2]]


@given(
    texts=st.lists(st.integers(0, 10**9).map(lambda number: b"%d\n" % number) | st.just(b""), min_size=1, max_size=20),
    pieces=st.integers(1, 60),
    block=st.integers(1, 60),
)
def test_the_same_is_unpacked_however_it_is_cut(
    texts: list[bytes], pieces: int, block: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.mktemp("cut") / "table.csv.gz"
    file.write_bytes(b"".join(map(gzip.compress, texts)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "_COMPRESSED", pieces)
        patch.setattr(tables, "_BLOCK", block)
        assert b"".join(gunzipped(file, 10**6)) == b"".join(texts)
