"""A state on disk: tensors as safetensors, the rest in a JSON manifest. Nothing is pickled.

The manifest is the last file written and names the others by checksum, so a folder holds either the old state or the
new one, whenever the writer is killed. Files that did not change are kept, as are the memories of old tasks.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from delome.errors import PersistenceError
from delome.persistence.documents import kind_of, read_document, write_document
from delome.persistence.files import add_folder, remove_temporary_files, reporting_write_errors, write_bytes
from delome.persistence.reading import holds, open_regular, parse_json, path_exists, sha256_of, size_of
from delome.persistence.state import MEMORY_OF_A_TASK, State

MANIFEST = "manifest.json"
MOST_HEADER = 4 << 20
"""Bytes of the header of a tensor file, which names some tensors for each task at most."""

FIRST = ".first-state"
"""Says, until there is a manifest, that the tensor files beside it are those of a first state that is being written."""

STATE = "state"
_FILE_NAME = re.compile(r"(state|memory-\d+)-[0-9a-f]{16}\.safetensors")


@dataclass
class Written:
    """What one writer has written to a folder: the last state, and name and checksum of the file of each memory."""

    state: State = field(default_factory=State)
    memories: dict[str, tuple[str, str]] = field(default_factory=dict)


def save_state(folder: Path, kind: str, about: dict[str, Any], state: State, written: Written | None = None) -> None:
    """Writes a state, and in ``about`` what a reader needs to know about it, replacing the one on disk.

    The folder is made if it is missing; its parent must exist. A memory that the same writer has ``written`` before is
    neither written nor checked again while it consists of the very same tensors.
    """
    written = Written() if written is None else written
    if bad := state.not_finite(since=written.state):
        raise PersistenceError(
            f"cannot write '{folder}': '{bad[0]}' holds numbers that are not finite; "
            "try a smaller lr, or scale the features"
        )
    parts, before = _parts(state), _parts(written.state)
    with reporting_write_errors(folder):
        add_folder(folder)
        remove_temporary_files(folder)
        if not path_exists(folder / MANIFEST):
            (folder / FIRST).touch()
        present = {file.name for file in _own_files(folder)}
        files = {}
        for part, tensors in parts.items():
            name, checksum = written.memories.get(part, ("", ""))
            if name not in present or not _are_same(tensors, before[part]):
                name, checksum = _write_part(folder, part, tensors)
            files[part] = name, checksum
        write_document(folder / MANIFEST, kind, {**about, "values": state.values, "files": dict(files.values())})
        _remove_mark(folder)
        written.state, written.memories = state, {part: file for part, file in files.items() if part != STATE}
        for name in present.difference(name for name, _ in files.values()):
            (folder / name).unlink()


def _parts(state: State) -> dict[str, dict[str, Tensor]]:
    """Tensors by the file they belong to: one for each memory, and one for all else."""
    parts: dict[str, dict[str, Tensor]] = {}
    for name, tensor in state.tensors.items():
        memory = MEMORY_OF_A_TASK.match(name)
        parts.setdefault(f"memory-{memory[1]}" if memory else STATE, {})[name] = tensor
    return parts


def _are_same(tensors: dict[str, Tensor], before: dict[str, Tensor]) -> bool:
    return tensors.keys() == before.keys() and all(before[name] is tensor for name, tensor in tensors.items())


def _write_part(folder: Path, part: str, tensors: dict[str, Tensor]) -> tuple[str, str]:
    """Writes a tensor file unless it is there already; gives its name and checksum."""
    # copies, because safetensors refuses tensors that share their storage
    copies = {
        name: tensor.detach().cpu().clone(memory_format=torch.contiguous_format) for name, tensor in tensors.items()
    }
    content = safetensors.torch.save(copies)
    checksum = hashlib.sha256(content).hexdigest()
    file = folder / f"{part}-{checksum[:16]}.safetensors"
    if not holds(file, content):
        write_bytes(file, content)
    return file.name, checksum


def _remove_mark(folder: Path) -> None:
    if path_exists(folder / FIRST):
        (folder / FIRST).unlink()


def _own_files(folder: Path) -> list[Path]:
    """Tensor files of states in a folder; other files are left alone."""
    return [file for file in folder.glob("*.safetensors") if _FILE_NAME.fullmatch(file.name)]


def load_state(folder: Path, kind: str) -> tuple[dict[str, Any], State]:
    """What was written: ``about`` and the state; refuses a folder in which anything is missing or damaged."""
    manifest = read_document(folder / MANIFEST, kind)
    while True:
        try:
            return _read(folder, manifest)
        except PersistenceError:
            # the state may have been replaced after its manifest was read
            before, manifest = manifest, read_document(folder / MANIFEST, kind)
            if manifest == before:
                raise


def _read(folder: Path, manifest: dict[str, Any]) -> tuple[dict[str, Any], State]:
    about = dict(manifest)
    values, checksums = about.pop("values", None), about.pop("files", None)
    if not isinstance(values, dict) or not isinstance(checksums, dict):
        raise PersistenceError(f"'{folder / MANIFEST}' is damaged: it does not say what the state consists of")
    state = State(values=values)
    for name, checksum in checksums.items():
        if not _FILE_NAME.fullmatch(name):
            raise PersistenceError(f"'{folder / MANIFEST}' is damaged: '{name}' is not the name of a state file")
        try:
            content = _read_tensors(folder / name)
            if hashlib.sha256(content).hexdigest() != checksum:
                raise PersistenceError(
                    f"'{folder / name}' is damaged: it does not have the checksum it was written with"
                )
            # a copy, because products may depend in the last bit on how their operands are aligned
            state.tensors |= {key: tensor.clone() for key, tensor in safetensors.torch.load(content).items()}
        except OSError as error:
            raise PersistenceError(f"cannot read '{folder / name}': {error.strerror or error}") from None
        except (PersistenceError, MemoryError):
            raise
        except Exception:  # a file of another kind fails anywhere in the readers
            raise PersistenceError(f"'{folder / name}' is damaged: it is not a safetensors file") from None
    return about, state


def _read_tensors(file: Path) -> bytes:
    """Content of a safetensors file; a ``ValueError`` if its header speaks of more than the file can hold.

    An empty tensor takes no bytes, whatever its other sizes are: they must not exceed the file's either, so that
    no tensor made from them is larger than the file.
    """
    with open_regular(file) as opened:
        size = size_of(opened)
        length = int.from_bytes(opened.read(8), "little")
        if length > min(size, MOST_HEADER):
            raise ValueError("no header")
        header = parse_json(opened.read(length))
        header.pop("__metadata__", None)
        ends = [0, *(tensor["data_offsets"][1] for tensor in header.values())]
        sizes = [each for tensor in header.values() for each in tensor["shape"]]
        if max(ends) != size - 8 - length or not all(type(each) is int and 0 <= each <= size for each in sizes):
            raise ValueError("sizes beyond the file")
        opened.seek(0)
        return opened.read(size)


def is_intact(folder: Path, kind: str, manifest: str | None) -> bool:
    """Whether every file of a state is as it was written, including the manifest if its checksum is known; loads no
    tensors."""
    try:
        if manifest not in (None, sha256_of(folder / MANIFEST)):
            return False
        files = read_document(folder / MANIFEST, kind).get("files")
        return isinstance(files, dict) and all(
            _FILE_NAME.fullmatch(name) and sha256_of(folder / name) == checksum for name, checksum in files.items()
        )
    except (OSError, PersistenceError):
        return False


def holds_state(folder: Path) -> bool:
    """Whether a folder holds a state, intact or damaged."""
    return kind_of(folder / MANIFEST) is not None or bool(_own_files(folder))


def remove_unfinished(folder: Path) -> None:
    """Removes what a writer killed while writing a first state has left: tensor files without a manifest."""
    with reporting_write_errors(folder):
        if path_exists(folder / FIRST) and not path_exists(folder / MANIFEST):
            for file in _own_files(folder):
                file.unlink()
        remove_temporary_files(folder)
        _remove_mark(folder)


def remove_state(folder: Path) -> None:
    """Removes a state; what else the folder holds stays."""
    with reporting_write_errors(folder):
        (folder / MANIFEST).unlink(missing_ok=True)
        for file in _own_files(folder):
            file.unlink()
        remove_temporary_files(folder)
        _remove_mark(folder)
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
