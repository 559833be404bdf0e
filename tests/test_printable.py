from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delome.printable import FORMULA, csv_field, printable


@given(st.text())
def test_what_is_printed_moves_nothing_and_ends_no_line(text: str) -> None:
    assert printable(text).isprintable()


@pytest.mark.parametrize("text", ["", "plain", "ä 图 ∑", "[red]", "a\\nb"])
def test_what_can_be_printed_is_printed_as_it_is(text: str) -> None:
    assert printable(text) == text


def test_escapes_are_shown() -> None:
    assert printable("\x1b[2J\r\n\x9b\u202e\udcff") == r"\x1b[2J\r\n\x9b\u202e\udcff"


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")), min_size=1, max_size=4))
def test_every_name_is_one_field_that_is_no_formula(names: list[str]) -> None:
    text = "".join(f"{number},{csv_field(name)}\n" for number, name in enumerate(names))
    rows = list(csv.reader(io.StringIO(text, newline="")))
    assert [row[0] for row in rows] == [str(number) for number in range(len(names))]
    for (_, field), name in zip(rows, names, strict=True):
        assert not field.startswith(FORMULA)
        assert field == (f"'{name}" if name.startswith(FORMULA) else name)


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("cat", "cat"),
        ("", ""),
        ("a,b", '"a,b"'),
        ('"a"', '"""a"""'),
        ("a\rb", '"a\rb"'),
        ("a\nb", '"a\nb"'),
        ("=1+1", "'=1+1"),
        ("-x", "'-x"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ('+cmd|" /C calc"', '"\'+cmd|"" /C calc"""'),
        ("\r=1", '"\'\r=1"'),
        ("a-b", "a-b"),
    ],
)
def test_fields_are_quoted_where_they_must_be(name: str, field: str) -> None:
    assert csv_field(name) == field
