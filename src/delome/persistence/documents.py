"""JSON documents that name their kind, format and checksum."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from delome.errors import PersistenceError
from delome.persistence.files import write_text
from delome.persistence.reading import MOST_DOCUMENT, read_json

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
    body = {"kind": kind, "format": FORMAT, **content}
    try:
        checksum = _checksum(body)
    except ValueError:
        raise PersistenceError(
            f"cannot write '{target}': it would hold numbers that are not finite; try a smaller lr, or scaled features"
        ) from None
    text = json.dumps({"sha256": checksum, **body}, indent=1, allow_nan=False)
    write_text(target, text + "\n")


def read_document(source: Path, kind: str, most: int = MOST_DOCUMENT) -> dict[str, Any]:
    """Content of a document of this kind, at most ``most`` bytes long; refuses what is damaged, of another kind or of
    an unknown format."""
    refusal = f"'{source}' is not a {kind} of delome"
    try:
        body = read_json(source, most)
    except FileNotFoundError:
        raise PersistenceError(f"'{source}' does not exist, so '{source.parent}' holds no {kind} of delome") from None
    except OSError as error:
        raise PersistenceError(f"cannot read '{source}': {error.strerror or error}") from None
    except ValueError:
        raise PersistenceError(f"{refusal}: it is damaged or of another kind") from None
    if not isinstance(body, dict) or body.get("kind") != kind:
        raise PersistenceError(f"{refusal}: it is damaged or of another kind")
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
