"""A state on disk: tensors as safetensors, the rest in a JSON manifest. Nothing is pickled.

The manifest is the last file written and names the others by checksum, so a folder holds either the old state or the
new one, whenever the writer is killed. Files that did not change are kept, as are the memories of old tasks.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from delome.durable import (
    add_folder,
    is_there,
    kind_of,
    read_document,
    remove_leftovers,
    told,
    write_bytes,
    write_document,
)
from delome.errors import StorageError
from delome.foreign import holds, open_regular, parse_json, sha256_of, size_of
from delome.state import State

MANIFEST = "manifest.json"
MOST_HEADER = 4 << 20
"""Bytes of the header of a tensor file, which names some tensors for each task at most."""

FIRST = ".first-state"
"""Says, until there is a manifest, that the tensor files beside it are those of a first state that is being written."""

_MEMORY_OF_A_TASK = re.compile(r"memory\.(\d+)\.")
_FILE_NAME = re.compile(r"(state|memory-\d+)-[0-9a-f]{16}\.safetensors")


def save_state(folder: Path, kind: str, about: dict[str, Any], state: State) -> None:
    """Writes a state, and in ``about`` what a reader needs to know about it, in place of the one that is there.

    The folder is made if it is missing, in one that must be there.
    """
    if bad := state.not_finite():
        raise StorageError(
            f"cannot write '{folder}': '{bad[0]}' holds numbers that are not finite; "
            "try a smaller lr, or scale the features"
        )
    parts: dict[str, dict[str, Tensor]] = {}
    for name, tensor in state.tensors.items():
        memory = _MEMORY_OF_A_TASK.match(name)
        part = f"memory-{memory[1]}" if memory else "state"
        # copies, because safetensors refuses tensors that share their storage
        copy = tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
        parts.setdefault(part, {})[name] = copy
    with told(folder):
        add_folder(folder)
        remove_leftovers(folder)
        if not is_there(folder / MANIFEST):
            (folder / FIRST).touch()
        checksums = {}
        for part, tensors in parts.items():
            content = safetensors.torch.save(tensors)
            checksum = hashlib.sha256(content).hexdigest()
            file = folder / f"{part}-{checksum[:16]}.safetensors"
            checksums[file.name] = checksum
            if not holds(file, content):
                write_bytes(file, content)
        write_document(folder / MANIFEST, kind, {**about, "values": state.values, "files": checksums})
        _remove_mark(folder)
        for file in _own_files(folder):
            if file.name not in checksums:
                file.unlink()


def _remove_mark(folder: Path) -> None:
    if is_there(folder / FIRST):
        (folder / FIRST).unlink()


def _own_files(folder: Path) -> list[Path]:
    """Tensor files that states have left in a folder; others are none of our business."""
    return [file for file in folder.glob("*.safetensors") if _FILE_NAME.fullmatch(file.name)]


def load_state(folder: Path, kind: str) -> tuple[dict[str, Any], State]:
    """What was written: ``about`` and the state; refuses a folder in which anything is missing or damaged."""
    manifest = read_document(folder / MANIFEST, kind)
    while True:
        try:
            return _read(folder, manifest)
        except StorageError:
            # somebody may have replaced the state between our reading of its manifest and of its tensors
            before, manifest = manifest, read_document(folder / MANIFEST, kind)
            if manifest == before:
                raise


def _read(folder: Path, manifest: dict[str, Any]) -> tuple[dict[str, Any], State]:
    about = dict(manifest)
    values, checksums = about.pop("values", None), about.pop("files", None)
    if not isinstance(values, dict) or not isinstance(checksums, dict):
        raise StorageError(f"'{folder / MANIFEST}' is damaged: it does not say what the state consists of")
    state = State(values=values)
    for name, checksum in checksums.items():
        if not _FILE_NAME.fullmatch(name):
            raise StorageError(f"'{folder / MANIFEST}' is damaged: '{name}' is no file of a state")
        try:
            content = _read_tensors(folder / name)
            if hashlib.sha256(content).hexdigest() != checksum:
                raise StorageError(f"'{folder / name}' is damaged: it does not have the checksum it was written with")
            # a copy, because products may depend in the last bit on how their operands are aligned
            state.tensors |= {key: tensor.clone() for key, tensor in safetensors.torch.load(content).items()}
        except OSError as error:
            raise StorageError(f"cannot read '{folder / name}': {error.strerror or error}") from None
        except StorageError:
            raise
        except Exception:  # a file of another kind fails anywhere in the readers
            raise StorageError(f"'{folder / name}' is damaged: it is no safetensors file") from None
    return about, state


def _read_tensors(file: Path) -> bytes:
    """Content of a safetensors file; a ``ValueError`` if its header speaks of more than the file can hold.

    An empty tensor takes no bytes, whatever its other sizes are: they must not exceed the file's either, so that
    nothing that is made in their image is larger than what is there.
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
            raise ValueError("not what is there")
        opened.seek(0)
        return opened.read(size)


def is_intact(folder: Path, kind: str, manifest: str | None) -> bool:
    """Whether every file of a state is there as it was written, also the manifest if its checksum is known; no tensor
    is loaded."""
    try:
        if manifest not in (None, sha256_of(folder / MANIFEST)):
            return False
        files = read_document(folder / MANIFEST, kind).get("files")
        return isinstance(files, dict) and all(
            _FILE_NAME.fullmatch(name) and sha256_of(folder / name) == checksum for name, checksum in files.items()
        )
    except (OSError, StorageError):
        return False


def holds_state(folder: Path) -> bool:
    """Whether a folder belongs to a state, be it damaged."""
    return kind_of(folder / MANIFEST) is not None or bool(_own_files(folder))


def remove_unfinished(folder: Path) -> None:
    """Removes what was left by one who was killed while writing a first state: it has tensor files, but no manifest."""
    with told(folder):
        if is_there(folder / FIRST) and not is_there(folder / MANIFEST):
            for file in _own_files(folder):
                file.unlink()
        remove_leftovers(folder)
        _remove_mark(folder)


def remove_state(folder: Path) -> None:
    """Removes a state; what else the folder holds stays."""
    with told(folder):
        (folder / MANIFEST).unlink(missing_ok=True)
        for file in _own_files(folder):
            file.unlink()
        remove_leftovers(folder)
        _remove_mark(folder)
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
