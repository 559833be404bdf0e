"""Text made fit for a terminal or a spreadsheet: names of classes and files from elsewhere, and numbers of things."""

from __future__ import annotations

from collections.abc import Sequence

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""Beginnings of a field that a spreadsheet computes instead of showing it."""


def printable(text: str) -> str:
    """The text with escapes in place of signs that a terminal would obey instead of showing them.

    >>> print(printable("a\\nb \\x1b[2J"))
    a\\nb \\x1b[2J
    """
    return text if text.isprintable() else "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def csv_field(text: str) -> str:
    """A field of a CSV file, quoted by RFC 4180; what would be a formula begins with an apostrophe.

    >>> print(csv_field('logic, "in" cs'), csv_field("=1+1"))
    "logic, ""in"" cs" '=1+1
    """
    field = f"'{text}" if text.startswith(FORMULA) else text
    return '"{}"'.format(field.replace('"', '""')) if set(field) & set(',"\r\n') else field


def alternatives(words: Sequence[str]) -> str:
    """Words of which one is to be chosen.

    >>> alternatives(["cut", "joined", "grown"]), alternatives(["cut"])
    ('cut, joined or grown', 'cut')
    """
    *rest, last = words
    return f"{', '.join(rest)} or {last}" if rest else last


def plain(value: object) -> str:
    """A setting as people write it: every number in the same notation, nothing as none.

    >>> plain(1e5), plain(1e6), plain(0.0001), plain(None), plain(True), plain("cm")
    ('100000', '1000000', '0.0001', 'none', 'true', 'cm')
    """
    if value is None or isinstance(value, bool):
        return str(value).lower()
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def counted(number: int, noun: str) -> str:
    """Number and noun, in the plural if there are not exactly one.

    >>> counted(1, "task"), counted(2, "class")
    ('1 task', '2 classes')
    """
    return f"{number} {noun}" if number == 1 else f"{number} {noun}{'es' if noun.endswith('s') else 's'}"
