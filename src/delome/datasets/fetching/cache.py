"""The folder in which published datasets are kept: where it is, and what its files must be."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

from delome.errors import DatasetError
from delome.persistence.files import write_text
from delome.persistence.reading import path_exists, read_json, sha256_of

CHECKSUMS = "checksums.json"
MANIFEST = "manifest.json"
"""What the converted form of a dataset is known by."""


def cache_root(data_root: str | Path | None = None) -> Path:
    """``data_root`` if given, else the folder in ``DELOME_DATA``, else ``delome`` in the platform's cache folder."""
    chosen = str(data_root) if data_root is not None else os.environ.get("DELOME_DATA", "")
    try:
        root = Path(chosen).expanduser().absolute() if chosen else platform_cache() / "delome"
        with suppress(FileNotFoundError):
            root.stat()
    except (OSError, RuntimeError, ValueError) as error:  # a name that is too long, an unknown home
        reason = getattr(error, "strerror", None) or error
        raise DatasetError(f"cannot use '{chosen}' ({reason}): choose another folder with --data-root") from None
    return root


def what_is_here(
    folder: Path, archive: str, layouts: Iterable[Sequence[str]]
) -> Literal["converted", "raw files", "nothing"]:
    """What a load of a dataset would start from; contents are not checked."""
    if (folder / "converted" / MANIFEST).is_file():
        return "converted"
    return "raw files" if (folder / archive).is_file() or complete_layout(folder, layouts) else "nothing"


def complete_layout(folder: Path, layouts: Iterable[Sequence[str]]) -> list[Path]:
    """The files of a complete layout that lie together somewhere in the folder; empty if there are none."""
    for layout in layouts:
        for first in sorted(folder.rglob(layout[0])):
            if all((first.parent / name).is_file() for name in layout):
                return [first.parent / name for name in layout]
    return []


def platform_cache() -> Path:
    """Where programs of this platform keep what they can make again."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    configured = os.environ.get("XDG_CACHE_HOME", "")
    # the XDG specification: a relative path is to be ignored
    return Path(configured) if configured and Path(configured).is_absolute() else Path.home() / ".cache"


def recorded_checksums(folder: Path) -> dict[str, str]:
    """SHA-256 of each source file that was once read successfully, by file name; empty if none was."""
    file = folder / CHECKSUMS
    try:
        content = read_json(file) if path_exists(file) else {}
        return {str(name): str(checksum) for name, checksum in content.items()}
    except (OSError, ValueError, AttributeError):
        raise DatasetError(f"'{file}' is damaged: delete it to record the checksums anew") from None


def record_checksums(folder: Path, checksums: dict[str, str]) -> None:
    """Adds checksums to those that later readings must find again."""
    text = json.dumps(recorded_checksums(folder) | checksums, indent=1, sort_keys=True)
    write_text(folder / CHECKSUMS, text + "\n")


def verified_checksums(folder: Path, files: Iterable[Path], known: dict[str, str]) -> dict[str, str]:
    """Checksums of the files; refuses a file that differs from a ``known`` or an earlier recorded checksum."""
    expected = recorded_checksums(folder) | known
    found = {}
    for file in files:
        found[file.name] = sha256_of(file)
        if found[file.name] != expected.get(file.name, found[file.name]):
            raise DatasetError(
                f"'{file}' has SHA-256 {found[file.name][:12]}… instead of {expected[file.name][:12]}…: "
                f"delete it to fetch it again, or delete '{folder / CHECKSUMS}' too if the new file is wanted"
            )
    return found
