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
from delome.foreign import open_regular

MOST_EXPANSION = 100
"""An archive that unpacks to more than this times its size is taken for a trap: the published ones reach about 5."""

MOST_MEMBERS = 1000
"""Files and folders in an archive: the published ones have some twenty."""

_SMALL = 100 << 20  # bytes that may always be unpacked


def most_unpacked(size: int) -> int:
    """Bytes to which an archive of this size may unpack."""
    return max(_SMALL, MOST_EXPANSION * size)


def extract_zip(archive: Path, folder: Path, most: int) -> None:
    """Unpacks an archive of at most ``most`` bytes into a new folder, which appears only when it is complete."""
    temporary = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".unpacking-"))
    try:
        _extract(archive, temporary, most)
        temporary.rename(folder)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        raise DatasetError(f"'{archive}' is not a readable zip archive: {error}") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _extract(archive: Path, folder: Path, most: int) -> None:
    with open_regular(archive) as file, zipfile.ZipFile(file) as opened:
        members = opened.infolist()
        if len(members) > MOST_MEMBERS:
            raise DatasetError(f"'{archive}' is refused: it has {len(members):,} members")
        for member in members:
            _refuse_outside(archive, member)
        _refuse_too_large(archive, sum(member.file_size for member in members), folder, most)
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


def _refuse_too_large(archive: Path, size: int, folder: Path, most: int) -> None:
    if size > min(most, most_unpacked(archive.stat().st_size)):
        raise DatasetError(f"'{archive}' is refused: it would unpack to {size:,} bytes, far more than it should")
    if size > (free := shutil.disk_usage(folder).free):
        # not the archive's fault
        raise OSError(errno.ENOSPC, f"unpacking {archive.name} needs {size:,} bytes, {free:,} are free")
