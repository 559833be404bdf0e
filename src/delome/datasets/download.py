"""Downloads that can be interrupted: a ``.part`` file grows and becomes the file when it is complete."""

from __future__ import annotations

import http.client
import re
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

from delome.datasets.reading import Progress, silent
from delome.durable import is_irregular
from delome.errors import DatasetError

ATTEMPTS = 5
"""How often a download that lost its connection, but had got further, is taken up again at once."""

_CHUNK = 1 << 20
_ZIP_START = b"PK\x03\x04"  # npz archives are zip archives too


def download(url: str, target: Path, *, progress: Progress = silent, timeout: float = 30.0) -> None:
    """Fetches an archive (.zip or .npz). After an interruption ``<target>.part`` stays and is continued next time.

    The server need not support ranges: if it sends the whole file again, the download starts anew.
    """
    if urlsplit(url).scheme not in ("http", "https"):
        raise DatasetError(f"cannot download '{url}': only http and https addresses are fetched")
    by_hand = f"put {target.name} into '{target.parent}' by hand"
    part = target.with_name(f"{target.name}.part")
    if is_irregular(part):
        raise DatasetError(f"'{part}' is not a regular file: remove it and try again")
    for _ in range(ATTEMPTS):
        before = _size(part)
        try:
            total, complete = _continue(url, part, progress, timeout)
        except (OSError, http.client.HTTPException) as error:
            raise DatasetError(f"cannot download '{url}' ({_reason(error)}): try again or {by_hand}") from None
        if complete:
            part.replace(target)
            return
        if _size(part) <= before:
            break
    amount = f"{_size(part):,} bytes" if total is None else f"{_size(part):,} of {total:,} bytes"
    raise DatasetError(f"the download of '{url}' stopped after {amount}: try again to continue it, or {by_hand}")


def _continue(url: str, part: Path, progress: Progress, timeout: float) -> tuple[int | None, bool]:
    """Fetches what is missing; returns the size of the whole file, if known, and whether all of it is here."""
    start = _size(part)
    headers = {"User-Agent": "delome"} | ({"Range": f"bytes={start}-"} if start else {})
    try:
        response = _opener().open(urllib.request.Request(url, headers=headers), timeout=timeout)
    except urllib.error.HTTPError as error:
        with error:
            if error.code != http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE or not start:
                raise
            if error.headers.get("Content-Range") == f"bytes */{start}":
                return start, True
        part.unlink()  # it is longer than the file that the server has now
        return _continue(url, part, progress, timeout)
    with response:
        extent = _extent(response, start)
        if extent is None and start:
            part.unlink()
            return _continue(url, part, progress, timeout)
        if extent is None:
            raise http.client.HTTPException("the server sent another part of the file than the one asked for")
        start, total = extent
        head, alive = _read(response, len(_ZIP_START)) if start == 0 else (b"", True)
        if alive and start == 0 and head != _ZIP_START:
            # checked before the part is touched: the page of a login portal must not undo an hour of downloading
            page = "html" in response.headers.get("Content-Type", "") or head.lstrip().startswith(b"<")
            raise DatasetError(
                f"'{url}' is not an archive, the server sent {'a web page' if page else 'something else'} instead: "
                f"put {part.stem} into '{part.parent}' by hand"
            )
        done, activity = start + len(head), f"downloading {part.stem}"
        with part.open("ab" if start else "wb") as file:
            file.write(head)
            while alive:
                progress(activity, done, total)
                chunk, alive = _read(response)
                if not chunk:
                    break
                file.write(chunk)
                done += len(chunk)
    return total, alive and (total is None or done == total)


def _extent(response: http.client.HTTPResponse, wanted: int) -> tuple[int, int | None] | None:
    """Where the answer starts in the file (``wanted``, or 0 if ranges are ignored), and the size of the file.

    ``None`` if it is a part that was not asked for.
    """
    if response.status == http.HTTPStatus.PARTIAL_CONTENT:
        extent = re.fullmatch(r"bytes (\d+)-\d+/(\d+)", response.headers.get("Content-Range", ""))
        return (wanted, int(extent[2])) if extent and int(extent[1]) == wanted else None
    length = response.headers.get("Content-Length", "")
    return 0, int(length) if length.isdecimal() else None


def _read(response: http.client.HTTPResponse, exactly: int | None = None) -> tuple[bytes, bool]:
    """Next bytes, none at the end; and whether the connection still stands."""
    try:
        return (response.read1(_CHUNK) if exactly is None else response.read(exactly)), True
    except (OSError, http.client.HTTPException):
        return b"", False


def _opener() -> urllib.request.OpenerDirector:
    """Follows redirections to http and https only: urllib's own opener would also read ftp and local files."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler,
        urllib.request.HTTPHandler,
        urllib.request.HTTPSHandler,
        urllib.request.HTTPDefaultErrorHandler,
        urllib.request.HTTPRedirectHandler,
        urllib.request.HTTPErrorProcessor,
        urllib.request.UnknownHandler,
    ):
        opener.add_handler(handler())
    return opener


def _reason(error: OSError | http.client.HTTPException) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return f"the server answered {error.code} {error.reason}"
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    words = cause.strerror if isinstance(cause, OSError) and cause.strerror else str(cause) or type(cause).__name__
    return " ".join(words.split()).rstrip(".")


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0
