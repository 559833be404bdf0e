"""Unpacking of downloaded zip archives: nothing outside the folder, all of it or none of it."""

from __future__ import annotations

import errno
import re
import shutil
import stat
import tempfile
import zipfile
import zlib
from pathlib import Path

from delome.errors import DatasetError

MOST_EXPANSION = 100
"""An archive that unpacks to more than this times its size is taken for a trap: the published ones reach about 5."""

_SMALL = 100 << 20  # bytes that may always be unpacked


def extract_zip(archive: Path, folder: Path) -> None:
    """Unpacks an archive into a new folder, which appears only when it is complete."""
    temporary = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".unpacking-"))
    try:
        _extract(archive, temporary)
        temporary.rename(folder)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        raise DatasetError(f"'{archive}' is not a readable zip archive: {error}") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _extract(archive: Path, folder: Path) -> None:
    with zipfile.ZipFile(archive) as opened:
        members = opened.infolist()
        for member in members:
            _refuse_outside(archive, member)
        _refuse_too_large(archive, sum(member.file_size for member in members), folder)
        for member in members:
            target = folder / member.filename
            if member.is_dir():
                target.mkdir(parents=True, exist_ok=True)
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            # a member ends at its declared size, and its CRC is compared there
            with opened.open(member) as source, target.open("wb") as sink:
                shutil.copyfileobj(source, sink, 1 << 20)


def _refuse_outside(archive: Path, member: zipfile.ZipInfo) -> None:
    # the name as stored: zipfile cuts it at a NUL and turns a foreign separator into the platform's
    parts = re.split(r"[/\\]", member.orig_filename)
    outside = parts[0] == "" or ".." in parts or ":" in parts[0] or "\0" in member.orig_filename
    if outside or stat.S_ISLNK(member.external_attr >> 16):
        what = "lies outside its folder" if outside else "is a link"
        raise DatasetError(f"'{archive}' is refused: its member {member.orig_filename!r} {what}")


def _refuse_too_large(archive: Path, size: int, folder: Path) -> None:
    if size > max(_SMALL, MOST_EXPANSION * archive.stat().st_size):
        raise DatasetError(f"'{archive}' is refused: it would unpack to {size:,} bytes, far more than its own size")
    if size > (free := shutil.disk_usage(folder).free):
        # not the archive's fault
        raise OSError(errno.ENOSPC, f"unpacking {archive.name} needs {size:,} bytes, {free:,} are free")
