from __future__ import annotations

from pathlib import Path

import pytest
import torch

from delome.errors import StorageError
from delome.persistence.durable import write_document
from delome.persistence.state import State
from delome.persistence.store import MANIFEST, load_state, remove_state, save_state


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
    save_state(tmp_path / "deep" / "s", "example", {"method": "m"}, example())
    about, state = load_state(tmp_path / "deep" / "s", "example")
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

    monkeypatch.setattr("delome.persistence.store.write_document", fail)
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
    import delome.persistence.store as store

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
