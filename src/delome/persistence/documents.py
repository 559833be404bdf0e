"""JSON documents that name their kind, format and checksum."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from delome.errors import PersistenceError
from delome.persistence.files import append_line, write_text
from delome.persistence.reading import MOST_DOCUMENT, parse_json, read_json, read_regular

FORMAT = 2
"""Version of every document below; a reader refuses documents of a version it does not know."""


def write_document(target: Path, kind: str, content: dict[str, Any]) -> None:
    """Writes a JSON document that says what it is, which format it has, and its own checksum.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> write_document(folder / "a.json", "example", {"x": [1.5, None]})
    >>> read_document(folder / "a.json", "example")
    {'x': [1.5, None]}
    """
    fields = _signed(target, kind, content)
    # a line for each: long lists are faster to write, and to read by eye, without one for each number
    lines = [f" {json.dumps(name)}: {json.dumps(value, allow_nan=False)}" for name, value in fields.items()]
    write_text(target, "{\n" + ",\n".join(lines) + "\n}\n")


def append_document(target: Path, kind: str, content: dict[str, Any]) -> None:
    """Adds such a document to a file that has one on each line."""
    append_line(target, _signed(target, kind, content))


def _signed(target: Path, kind: str, content: dict[str, Any]) -> dict[str, Any]:
    """Content with kind, format and checksum."""
    body = {"kind": kind, "format": FORMAT, **content}
    try:
        return {"sha256": _checksum(body), **body}
    except ValueError:
        raise PersistenceError(
            f"cannot write '{target}': it would hold numbers that are not finite; try a smaller lr, or scaled features"
        ) from None


def read_document(source: Path, kind: str, most: int = MOST_DOCUMENT) -> dict[str, Any]:
    """Content of a document of this kind, at most ``most`` bytes long; refuses what is damaged, of another kind or of
    an unknown format."""
    with _reading(source, kind):
        return _checked(read_json(source, most), source, kind)


def read_documents(source: Path, kind: str, most: int = MOST_DOCUMENT) -> list[dict[str, Any]]:
    """Contents of the documents in a file that has one on each line, refused like the others; a last line that was cut
    short, as by a crash, is left out."""
    with _reading(source, kind):
        lines = read_regular(source, most).split(b"\n")[:-1]
        return [_checked(parse_json(line), source, kind) for line in lines]


@contextmanager
def _reading(source: Path, kind: str) -> Iterator[None]:
    """Says in one sentence why a file cannot be read."""
    try:
        yield
    except FileNotFoundError:
        raise PersistenceError(f"'{source}' does not exist, so '{source.parent}' holds no {kind} of delome") from None
    except OSError as error:
        raise PersistenceError(f"cannot read '{source}': {error.strerror or error}") from None
    except ValueError:
        raise PersistenceError(f"'{source}' is not a {kind} of delome: it is damaged or of another kind") from None


def _checked(body: Any, source: Path, kind: str) -> dict[str, Any]:
    """Content of a document, which must have the right kind, format and checksum."""
    if not isinstance(body, dict) or body.get("kind") != kind:
        raise ValueError("another kind")
    if body.get("format") != FORMAT:
        raise PersistenceError(
            f"'{source}' has format {str(body.get('format'))[:20]!r}, and this version of delome reads {FORMAT}: "
            "use the version that wrote it"
        )
    checksum = body.pop("sha256", None)
    try:
        intact = checksum == _checksum(body)
    except ValueError:  # NaN and infinity are never written
        intact = False
    if not intact:
        raise PersistenceError(f"'{source}' is damaged: its content does not have the checksum it was written with")
    del body["kind"], body["format"]
    return body


def kind_of(source: Path) -> str | None:
    """The kind a delome document claims to be, even if damaged; ``None`` for any other file."""
    try:
        body = read_json(source)
    except (OSError, ValueError):
        return None
    ours = isinstance(body, dict) and {"kind", "format", "sha256"} <= body.keys()
    return str(body["kind"]) if ours else None


def _checksum(body: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True, allow_nan=False).encode()).hexdigest()
