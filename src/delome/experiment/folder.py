"""RunFolder: where a run leaves its results; every file is complete or absent."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from delome.errors import RunFolderError
from delome.experiment.config import RunConfig, versions


class RunFolder:
    """``config.json``, and for each seed ``seed-S/matrix.csv`` and ``seed-S/result.json``, and figures."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def open(cls, path: Path, config: RunConfig) -> RunFolder:
        """Creates the folder, or takes it up again if it holds the same configuration."""
        folder = cls(path)
        existing = path / "config.json"
        try:
            is_file, is_taken = path.exists() and not path.is_dir(), existing.exists()
        except OSError as error:
            raise RunFolderError(f"cannot write '{path}': {error.strerror}") from None
        if is_file:
            raise RunFolderError(f"'{path}' is a file: choose another folder with --out")
        if is_taken:
            try:
                found = dict(json.loads(existing.read_text())["run"].items())
            except (ValueError, KeyError, TypeError, AttributeError, OSError):
                raise RunFolderError(f"'{existing}' is not a configuration of a run: choose another folder") from None
            wanted = config.as_dict()
            different = sorted(key for key in {*found, *wanted} if found.get(key) != wanted.get(key))
            if different:
                raise RunFolderError(
                    f"'{path}' holds another run (different: {', '.join(different)}): choose another folder"
                )
        folder.write_json("config.json", {"run": config.as_dict(), "versions": versions()})
        return folder

    def discard_if_empty(self) -> None:
        """Removes a folder that holds nothing but the configuration: the run failed before its first result."""
        if [path.name for path in self.path.iterdir()] == ["config.json"]:
            (self.path / "config.json").unlink()
            self.path.rmdir()

    def write_json(self, name: str, content: Any) -> None:
        self.write_text(name, json.dumps(content, indent=1, allow_nan=False) + "\n")

    def write_text(self, name: str, text: str) -> None:
        self.write(name, lambda temporary: temporary.write_text(text))

    def write(self, name: str, fill: Callable[[Path], object]) -> Path:
        """Writes a file by filling a temporary one and renaming it."""
        target = self.path / name
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            handle, name_of_temporary = tempfile.mkstemp(dir=target.parent, prefix=".writing-", suffix=target.suffix)
            temporary = Path(name_of_temporary)
            try:
                fill(temporary)
                os.fsync(handle)
                temporary.chmod(0o644)
                temporary.replace(target)
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise
            finally:
                os.close(handle)
        except OSError as error:
            raise RunFolderError(f"cannot write '{target}': {error.strerror or error}") from None
        return target
