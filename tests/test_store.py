from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest
import torch

from delome.durable import write_document
from delome.errors import StorageError
from delome.state import State
from delome.store import MANIFEST, MOST_HEADER, load_state, remove_state, remove_unfinished, save_state


def example(x: float = 1.0) -> State:
    tensors = {
        "weights": torch.tensor([[x, -0.0], [3e38, 1e-40]]),
        "step": torch.tensor(3.0),
        "half": torch.ones(2, dtype=torch.float16),
        "ids": torch.arange(4),
        "empty": torch.empty(0, 3),
        "flags": torch.tensor([True, False]),
        "memory.0.rows": torch.arange(3),
        "memory.12.rows": torch.arange(2, dtype=torch.int32),
    }
    return State(tensors, {"tasks": [[0, 1]], "x": 0.1})


def test_a_state_is_read_back_bit_for_bit(tmp_path: Path) -> None:
    save_state(tmp_path / "s", "example", {"method": "m"}, example())
    about, state = load_state(tmp_path / "s", "example")
    assert about == {"method": "m"}
    assert state.values == example().values
    assert state.tensors.keys() == example().tensors.keys()
    for name, tensor in example().tensors.items():
        assert state.tensors[name].dtype == tensor.dtype
        assert state.tensors[name].shape == tensor.shape
        assert state.tensors[name].numpy().tobytes() == tensor.numpy().tobytes()


def test_tensors_that_share_storage_or_are_views_are_saved(tmp_path: Path) -> None:
    whole = torch.arange(12.0).reshape(3, 4)
    save_state(tmp_path, "example", {}, State({"a": whole, "b": whole.T, "c": whole[1]}))
    _, state = load_state(tmp_path, "example")
    assert torch.equal(state.tensors["b"], whole.T) and torch.equal(state.tensors["c"], whole[1])


def test_files_that_did_not_change_are_kept_and_old_ones_removed(tmp_path: Path) -> None:
    save_state(tmp_path, "example", {}, example(1.0))
    before = {path.name: path.stat().st_ino for path in tmp_path.iterdir()}
    save_state(tmp_path, "example", {}, example(2.0))
    after = {path.name: path.stat().st_ino for path in tmp_path.iterdir()}
    memories = {name for name in before if name.startswith("memory-")}
    assert len(memories) == 2 and len(after) == len(before) == 4
    assert all(after[name] == before[name] for name in memories)
    assert load_state(tmp_path, "example")[1].tensors["weights"][0, 0] == 2.0


def test_the_manifest_decides_which_state_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_state(tmp_path, "example", {}, example(1.0))

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("delome.store.write_document", fail)
    with pytest.raises(StorageError, match="No space left on device"):
        save_state(tmp_path, "example", {}, example(2.0))
    assert load_state(tmp_path, "example")[1].tensors["weights"][0, 0] == 1.0


def test_a_state_of_another_kind_is_refused(tmp_path: Path) -> None:
    save_state(tmp_path, "example", {}, example())
    with pytest.raises(StorageError, match="is not a saved learner of delome"):
        load_state(tmp_path, "saved learner")


@pytest.mark.parametrize("name", ["../outside.safetensors", "/etc/passwd", "manifest.json", "a/b.safetensors", ""])
def test_a_manifest_cannot_name_files_elsewhere(name: str, tmp_path: Path) -> None:
    write_document(tmp_path / MANIFEST, "example", {"values": {}, "files": {name: "0" * 64}})
    with pytest.raises(StorageError, match="is no file of a state"):
        load_state(tmp_path, "example")


def test_a_state_replaced_while_it_is_read_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import delome.store as store

    save_state(tmp_path, "example", {}, example(1.0))
    read = store._read
    lives = []

    def slow(folder: Path, manifest: dict) -> object:
        if not lives:
            lives.append(1)
            save_state(tmp_path, "example", {}, example(2.0))
        return read(folder, manifest)

    monkeypatch.setattr(store, "_read", slow)
    assert load_state(tmp_path, "example")[1].tensors["weights"][0, 0] == 2.0


def test_removing_a_state_leaves_what_else_is_there(tmp_path: Path) -> None:
    for other in (True, False):
        folder = tmp_path / str(other)
        save_state(folder, "example", {}, example())
        if other:
            (folder / "mine.txt").write_text("precious")
        remove_state(folder)
        assert folder.exists() == other
    assert [path.name for path in (tmp_path / "True").iterdir()] == ["mine.txt"]


def test_files_of_others_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "bert.safetensors").write_bytes(b"precious")
    save_state(tmp_path, "example", {}, example(1.0))
    save_state(tmp_path, "example", {}, example(2.0))
    remove_state(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["bert.safetensors"]


def put(folder: Path, content: bytes) -> Path:
    """A state whose one tensor file has this content, with the right checksum."""
    checksum = hashlib.sha256(content).hexdigest()
    file = folder / f"state-{checksum[:16]}.safetensors"
    file.write_bytes(content)
    write_document(folder / MANIFEST, "example", {"values": {}, "files": {file.name: checksum}})
    return file


def tensor_file(header: object, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def entry(shape: list[int], end: int = 0, dtype: str = "F32") -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [0, end]}


ODD_FILES = {
    "wide and empty": tensor_file({"x": entry([0, 5_000_000])}),
    "long and empty": tensor_file({"x": entry([5_000_000, 0])}),
    "beyond all numbers": tensor_file({"x": entry([2**63, 0])}),
    "negative": tensor_file({"x": entry([-1, 0])}),
    "a size that is none": tensor_file({"x": entry([True])}, bytes(4)),
    "data that is not there": tensor_file({"x": entry([3], 12)}, bytes(8)),
    "data that nobody names": tensor_file({"x": entry([2], 8)}, bytes(12)),
    "a large header": tensor_file(b"{}" + b" " * MOST_HEADER),
    "many tensors": tensor_file({f"{number:030}": entry([0]) for number in range(100_000)}),
    "a header beyond the file": (2**40).to_bytes(8, "little") + b"{}",
    "a deep header": tensor_file(b'{"x":' * 10_000 + b"1" + b"}" * 10_000),
    "a header that is a list": tensor_file([1]),
    "an entry that is none": tensor_file({"x": 3}),
    "an unknown type": tensor_file({"x": entry([2], 8, "F31")}, bytes(8)),
    "text in place of sizes": tensor_file({"x": entry("ab")}),
    "nothing": b"",
}


@pytest.mark.parametrize("name", ODD_FILES)
def test_a_tensor_file_that_speaks_of_more_than_it_holds_is_refused(name: str, tmp_path: Path) -> None:
    file = put(tmp_path, ODD_FILES[name])
    with pytest.raises(StorageError) as error:
        load_state(tmp_path, "example")
    assert str(error.value) == f"'{file}' is damaged: it is no safetensors file"


def test_a_tensor_file_as_the_ones_above_is_read(tmp_path: Path) -> None:
    put(tmp_path, tensor_file({"__metadata__": {"a": "b"}, "x": entry([0, 3]), "y": entry([2], 8)}, bytes(8)))
    tensors = load_state(tmp_path, "example")[1].tensors
    assert {name: tuple(tensor.shape) for name, tensor in tensors.items()} == {"x": (0, 3), "y": (2,)}


def test_a_pipe_in_place_of_a_tensor_file_is_neither_read_nor_kept(tmp_path: Path) -> None:
    save_state(tmp_path, "example", {}, example())
    for file in tmp_path.glob("*.safetensors"):
        file.unlink()
        os.mkfifo(file)
    with pytest.raises(StorageError, match="it is not a regular file"):
        load_state(tmp_path, "example")
    (tmp_path / MANIFEST).unlink()
    os.mkfifo(tmp_path / MANIFEST)
    with pytest.raises(StorageError, match="it is not a regular file"):
        load_state(tmp_path, "example")


@pytest.mark.parametrize("written", [0, 1, 2])
def test_what_was_left_of_a_first_state_is_removed_and_what_lost_its_manifest_is_not(
    written: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import delome.store as store

    class Killed(BaseException):
        pass

    real, count = store.write_bytes, 0

    def write(target: Path, content: bytes) -> None:
        nonlocal count
        if count == written:
            (target.parent / ".writing-half").write_bytes(b"half")
            raise Killed
        count += 1
        real(target, content)

    monkeypatch.setattr(store, "write_bytes", write)
    with pytest.raises(Killed):
        save_state(tmp_path, "example", {}, example())
    (tmp_path / "mine.txt").write_text("precious")
    remove_unfinished(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["mine.txt"]
    monkeypatch.undo()
    save_state(tmp_path, "example", {}, example())
    (tmp_path / MANIFEST).unlink()
    before = sorted(tmp_path.iterdir())
    remove_unfinished(tmp_path)
    assert sorted(tmp_path.iterdir()) == before and len(before) == 4
