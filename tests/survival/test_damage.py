from __future__ import annotations

import hashlib
import io
import json
import os
import pickle
import random
import shutil
import signal
import tempfile
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

import delome
from delome.errors import DelomeError
from delome.experiment import RunConfig, RunFolder, Stop, run
from delome.experiment.checkpoints import KIND as PROGRESS_KIND
from delome.experiment.folder import CONFIG_KIND
from delome.experiment.seed_folder import RESULT_KIND, TASKS_KIND
from delome.experiment.signals import Stopped
from delome.learning.learner import KIND as LEARNER_KIND
from delome.persistence.documents import FORMAT, append_document, read_document, read_documents, write_document
from delome.persistence.state_files import MANIFEST, load_state, save_state

Left = Callable[[Path], dict[str, Any]]
Snapshot = Callable[..., dict[str, Any]]

CASES: Counter[str] = Counter()
FILES_OF_A_RUN = (
    "config.json", "seed-0/tasks.jsonl", "seed-0/model/manifest.json", "seed-0/model/state-*.safetensors",
    "seed-0/model/memory-*.safetensors", "seed-0/progress/manifest.json", "seed-0/progress/state-*.safetensors",
)  # fmt: skip
FILES_OF_A_LEARNER = ("manifest.json", "state-*.safetensors", "memory-0-*.safetensors")
KINDS = {
    "config.json": CONFIG_KIND,
    "result.json": RESULT_KIND,
    "tasks.jsonl": TASKS_KIND,
    "model/manifest.json": LEARNER_KIND,
    "progress/manifest.json": PROGRESS_KIND,
}
MARKER = Path(tempfile.gettempdir()) / f"delome-executed-a-pickle-{os.getpid()}"
"""Made by a pickle that is loaded: nothing may."""


class Malicious:
    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (MARKER,)


@dataclass
class Damage:
    """Something that happens to a file."""

    name: str
    do: Callable[[Path], object]


def flipped(content: bytes, bit: int) -> bytes:
    changed = bytearray(content)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def torch_saved(value: object) -> bytes:
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


def zipped() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(Malicious()))
    return buffer.getvalue()


def foreign_contents() -> dict[str, bytes]:
    """Contents that no file of delome has."""
    return {
        "text": "nothing of that kind, ä".encode(),
        "another encoding": '{"kind": 1}'.encode("utf-16"),
        "empty object": b"{}",
        "list": b"[]",
        "null": b"null",
        "number": b"1",
        "number of many digits": b"1" * 5000,
        "deep nesting": b"[" * 100_000,
        "deep nesting inside": b'{"kind": ' * 50_000,
        "picture": b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(50),
        "archive": zipped(),
        "random bytes": random.Random(0).randbytes(1000),
        "zeros": bytes(1000),
        "huge header": (2**62).to_bytes(8, "little") + b"{}",
        "pickled dict": pickle.dumps({"kind": RESULT_KIND, "format": FORMAT}),
        "malicious pickle": pickle.dumps(Malicious()),
        "torch file": torch_saved({"model.first": torch.zeros(2)}),
        "malicious torch file": torch_saved(Malicious()),
        "other tensors": safetensors.torch.save({"x": torch.zeros(2)}),
    }


def document(kind: str, content: str, version: str = str(FORMAT)) -> bytes:
    """A document with the right checksum, of a content that is given as text."""
    body = json.loads(f'{{"kind": "{kind}", "format": {version}{content}}}')
    checksum = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
    return f'{{"sha256": "{checksum}", {json.dumps(body)[1:]}'.encode()


def foreign_documents(kind: str) -> dict[str, bytes]:
    """Documents of delome that do not belong where one of this kind is expected."""
    others = {each: document(each, ', "task": 1, "values": {}, "files": {}') for each in KINDS.values() if each != kind}
    return {f"document: {name}": content for name, content in others.items()} | {
        "document of a later format": document(kind, "", str(FORMAT + 1)),
        "document without format": document(kind, "", "null"),
        "document with a format of another type": document(kind, "", f'"{FORMAT}"'),
        "document of no content": document(kind, ""),
        "document with NaN": document(kind, ', "x": NaN'),
        "document with infinity": document(kind, ', "x": 1e999'),
        "document without checksum": f'{{"kind": "{kind}", "format": {FORMAT}}}'.encode(),
    }


def replaced_by(content: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(content)


def in_its_place(make: Callable[[Path], object]) -> Callable[[Path], object]:
    def change(path: Path) -> None:
        path.unlink()
        make(path)

    return change


def damages(file: Path) -> Iterator[Damage]:
    """All that is done to a file; afterwards it is another one or none."""
    content = file.read_bytes()
    size = len(content)
    for length in sorted({0, 1, 7, 8, 9, size // 2, size - 2} - {size}):
        yield Damage(f"cut to {length} bytes", replaced_by(content[:length]))
    drawn = random.Random(file.name).sample(range(8, 8 * size - 8), 28)
    for bit in [0, 3, 7, *sorted(drawn), 8 * size - 8, 8 * size - 1]:
        yield Damage(f"bit {bit} flipped", replaced_by(flipped(content, bit)))
    foreign = foreign_contents()
    for name, kind in KINDS.items():
        if str(file).endswith(name):
            foreign |= foreign_documents(kind)
    for name, other in foreign.items():
        yield Damage(name, replaced_by(other))
    yield Damage("longer", replaced_by(content + b"\0"))
    yield Damage("twice", replaced_by(content + content))
    yield Damage("a folder", in_its_place(Path.mkdir))
    yield Damage("a link to itself", in_its_place(lambda path: path.symlink_to(path)))
    yield Damage("a link to nothing", in_its_place(lambda path: path.symlink_to("nothing")))
    yield Damage("missing", lambda path: path.unlink())


def only_file(folder: Path, pattern: str) -> Path:
    (file,) = folder.glob(pattern)
    return file


def assert_one_sentence(error: DelomeError) -> None:
    sentence = str(error)
    assert sentence and "\n" not in sentence and len(sentence) < 1000


@pytest.fixture(autouse=True)
def nothing_is_executed() -> Iterator[None]:
    MARKER.unlink(missing_ok=True)
    yield
    assert not MARKER.exists()


@pytest.fixture(scope="module")
def config() -> RunConfig:
    return RunConfig.resolve(
        "synthetic:nodes=24,classes=4,features=4,noise=4", "replay", budget=2, epochs=2, assignments=["hidden=2"]
    )


@pytest.fixture(scope="module")
def interrupted(config: RunConfig, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was interrupted in its second task."""
    folder, stream, asked = tmp_path_factory.mktemp("run") / "run", config.stream(), Stop()
    asked.signal_number = signal.SIGTERM
    for _ in range(4):
        with RunFolder.open(folder, config, stream) as place, pytest.raises(Stopped):
            run(config, stream, place, stop=asked)
    assert (folder / "seed-0/progress").is_dir() and (folder / "seed-0/model").is_dir()
    return folder


def finish(config: RunConfig, folder: Path) -> None:
    stream = config.stream()
    with RunFolder.open(folder, config, stream) as place:
        run(config, stream, place)


@pytest.fixture(scope="module")
def finished(finished_run: Path, left: Left) -> Any:
    """What the interrupted run leaves in the end."""
    return left(finished_run)


MAY_BE_MADE_AGAIN = {
    ("seed-0/model/manifest.json", "missing"),
    ("seed-0/progress/manifest.json", "missing"),
    ("seed-0/tasks.jsonl", "longer"),
}
"""What was learned without being saved is learned again, and a line that was cut short is written again."""


@pytest.mark.slow
@pytest.mark.parametrize("pattern", FILES_OF_A_RUN)
def test_a_run_with_a_damaged_file_is_refused_and_left_as_it_is(
    pattern: str, config: RunConfig, interrupted: Path, finished: Any, left: Left, snapshot: Snapshot, tmp_path: Path
) -> None:
    made_again = set()
    for number, damage in enumerate(damages(only_file(interrupted, pattern))):
        folder = tmp_path / str(number)
        shutil.copytree(interrupted, folder)
        damage.do(only_file(folder, pattern))
        before = snapshot(folder, "events.jsonl")
        try:
            finish(config, folder)
        except DelomeError as error:
            assert_one_sentence(error)
            assert snapshot(folder, "events.jsonl") == before, damage.name
        else:
            assert left(folder) == finished, damage.name
            made_again.add((pattern, damage.name))
        CASES["run folder"] += 1
    assert made_again == {case for case in MAY_BE_MADE_AGAIN if case[0] == pattern}


@pytest.fixture(scope="module")
def saved_learner(config: RunConfig, lives: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("learner") / "model"
    lives.learned(config, config.stream(), 2).save(folder)
    return folder


@pytest.mark.parametrize("pattern", FILES_OF_A_LEARNER)
def test_a_saved_learner_with_a_damaged_file_is_refused_and_left_as_it_is(
    pattern: str, saved_learner: Path, snapshot: Snapshot, tmp_path: Path
) -> None:
    for number, damage in enumerate(damages(only_file(saved_learner, pattern))):
        folder = tmp_path / str(number) / "model"
        shutil.copytree(saved_learner, folder)
        damage.do(only_file(folder, pattern))
        before = snapshot(folder)
        with pytest.raises(DelomeError) as error:
            delome.load(folder)
            raise AssertionError(damage.name)
        assert_one_sentence(error.value)
        assert snapshot(folder) == before
        CASES["saved learner"] += 1


@pytest.mark.parametrize("name", [*foreign_contents(), "nothing"])
def test_tensors_that_are_none_are_refused_even_with_the_right_checksum(
    name: str, saved_learner: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(saved_learner, folder)
    file, content = only_file(folder, "state-*.safetensors"), foreign_contents().get(name, b"")
    file.write_bytes(content)
    manifest = read_document(folder / MANIFEST, LEARNER_KIND)
    manifest["files"][file.name] = hashlib.sha256(content).hexdigest()
    write_document(folder / MANIFEST, LEARNER_KIND, manifest)
    with pytest.raises(DelomeError) as error:
        delome.load(folder)
    assert_one_sentence(error.value)
    CASES["tensors with checksum"] += 1


@pytest.mark.parametrize(
    "name", ["../secret.safetensors", "/etc/passwd", "", ".", "manifest.json", "x\n.safetensors", "X.safetensors"]
)
def test_a_manifest_names_no_file_but_those_of_a_state(name: str, saved_learner: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(saved_learner, folder)
    manifest = read_document(folder / MANIFEST, LEARNER_KIND)
    secret = safetensors.torch.save({"x": torch.zeros(1)})
    (tmp_path / "secret.safetensors").write_bytes(secret)
    manifest["files"][name] = hashlib.sha256(secret).hexdigest()
    write_document(folder / MANIFEST, LEARNER_KIND, manifest)
    with pytest.raises(DelomeError, match="is not the name of a state file"):
        delome.load(folder)
    CASES["file names"] += 1


RESULTS: dict[str, Callable[[dict[str, Any]], object]] = {
    "no tasks": lambda result: result.pop("tasks"),
    "tasks are none": lambda result: result.update(tasks=None),
    "tasks are a number": lambda result: result.update(tasks=3),
    "tasks are a text": lambda result: result.update(tasks="ab"),
    "a task is a list": lambda result: result.update(tasks=[[]]),
    "a task is empty": lambda result: result.update(tasks=[{}]),
    "a task has more": lambda result: result["tasks"][0].update(more=1),
    "a task has less": lambda result: result["tasks"][0].pop("micro"),
    "storage is a number": lambda result: result["tasks"][0].update(storage=1),
    "storage has more": lambda result: result["tasks"][0]["storage"].update(more=1),
    "accuracies are a text": lambda result: result["tasks"][0].update(accuracies="a"),
    "accuracies are texts": lambda result: result["tasks"][0].update(accuracies=["a"]),
    "accuracies are too many": lambda result: result["tasks"][0].update(accuracies=[1.0, 2.0]),
    "accuracies are too few": lambda result: result["tasks"][0].update(micro=[]),
    "seconds are a list": lambda result: result["tasks"][0].update(seconds=[1.0]),
    "seconds are texts": lambda result: result["tasks"][0].update(seconds={"train": "a"}),
    "the report is a list": lambda result: result["tasks"][0].update(report=[1.0]),
    "finished without any task": lambda result: result.update(tasks=[]),
    "finished too early": lambda result: result["tasks"].pop(),
    "finished is missing": lambda result: result.pop("finished"),
    "finished is a text": lambda result: result.update(finished="no"),
    "not finished": lambda result: result.update(finished=False),
    "more tasks than there are": lambda result: result.update(
        tasks=[task | {"accuracies": [1.0] * n, "micro": [1.0] * n} for task in result["tasks"] for n in (1, 2, 3)]
    ),
    "seed of another": lambda result: result.update(seed=1),
    "run of another": lambda result: result.update(run="another"),
    "no seed": lambda result: result.pop("seed"),
}
TASKS: dict[str, Callable[[dict[str, Any]], object]] = {
    "it has more": lambda line: line.update(more=1),
    "it has less": lambda line: line.pop("micro"),
    "storage is a number": lambda line: line.update(storage=1),
    "storage has more": lambda line: line["storage"].update(more=1),
    "accuracies are a text": lambda line: line.update(accuracies="a"),
    "accuracies are texts": lambda line: line.update(accuracies=["a"]),
    "accuracies are too many": lambda line: line.update(accuracies=[1.0, 2.0]),
    "accuracies are too few": lambda line: line.update(micro=[]),
    "seconds are a list": lambda line: line.update(seconds=[1.0]),
    "seconds are texts": lambda line: line.update(seconds={"train": "a"}),
    "the report is a list": lambda line: line.update(report=[1.0]),
    "of another task": lambda line: line.update(task=1),
    "of no task": lambda line: line.pop("task"),
    "seed of another": lambda line: line.update(seed=1),
    "seed is a list": lambda line: line.update(seed=[0]),
    "no seed": lambda line: line.pop("seed"),
    "run of another": lambda line: line.update(run="another"),
    "no run": lambda line: line.pop("run"),
}


@pytest.mark.parametrize("name", TASKS)
def test_results_of_a_task_that_are_none_are_refused_even_with_the_right_checksum(
    name: str, config: RunConfig, interrupted: Path, snapshot: Snapshot, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(interrupted, folder)
    file = folder / "seed-0/tasks.jsonl"
    (line,) = read_documents(file, TASKS_KIND)
    TASKS[name](line)
    file.unlink()
    append_document(file, TASKS_KIND, line)
    before = snapshot(folder, "events.jsonl")
    with pytest.raises(DelomeError) as error:
        finish(config, folder)
    assert_one_sentence(error.value)
    assert snapshot(folder, "events.jsonl") == before
    CASES["results with checksum"] += 1


@pytest.fixture(scope="module")
def finished_run(config: RunConfig, interrupted: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished") / "run"
    shutil.copytree(interrupted, folder)
    finish(config, folder)
    return folder


@pytest.mark.parametrize("name", RESULTS)
def test_results_that_are_none_are_refused_even_with_the_right_checksum(
    name: str, config: RunConfig, finished_run: Path, snapshot: Snapshot, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(finished_run, folder)
    result = read_document(folder / "seed-0/result.json", RESULT_KIND)
    RESULTS[name](result)
    write_document(folder / "seed-0/result.json", RESULT_KIND, result)
    before = snapshot(folder, "events.jsonl")
    with pytest.raises(DelomeError) as error:
        finish(config, folder)
    assert_one_sentence(error.value)
    assert snapshot(folder, "events.jsonl") == before
    CASES["results with checksum"] += 1


PROGRESS: dict[str, Callable[[dict[str, Any], dict[str, Any], dict[str, Any]], object]] = {
    "no task": lambda about, values, tensors: about.pop("task"),
    "a phase is a list": lambda about, values, tensors: values.update(train=[]),
    "a phase is empty": lambda about, values, tensors: values.update(train={}),
    "steps are a text": lambda about, values, tensors: values["train"].update(done="1"),
    "steps are none": lambda about, values, tensors: values["train"].update(done=None),
    "steps are negative": lambda about, values, tensors: values["train"].update(done=-1),
    "steps are broken": lambda about, values, tensors: values["train"].update(done=0.5),
    "seconds are a text": lambda about, values, tensors: values["train"].update(seconds="1"),
    "values are a list": lambda about, values, tensors: values["train"].update(values=[]),
    "a tensor is missing": lambda about, values, tensors: tensors.pop("train/model.first"),
    "a tensor has another name": lambda about, values, tensors: tensors.update(
        {"train/model.furst": tensors.pop("train/model.first")}
    ),
    "a tensor has another shape": lambda about, values, tensors: tensors.update(
        {"train/model.first": tensors["train/model.first"].T.contiguous()}
    ),
    "a moment is missing": lambda about, values, tensors: tensors.pop("train/adam.first.step"),
    "a moment is wide and empty": lambda about, values, tensors: tensors.update(
        {"train/adam.first.exp_avg": tensors["train/adam.first.exp_avg"][:0].clone()}
    ),
}


@pytest.mark.parametrize("name", PROGRESS)
def test_progress_that_is_none_is_refused_even_with_the_right_checksum(
    name: str, config: RunConfig, interrupted: Path, snapshot: Snapshot, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(interrupted, folder)
    about, state = load_state(folder / "seed-0/progress", PROGRESS_KIND)
    PROGRESS[name](about, state.values, state.tensors)
    save_state(folder / "seed-0/progress", PROGRESS_KIND, about, state)
    before = snapshot(folder, "events.jsonl")
    with pytest.raises(DelomeError) as error:
        finish(config, folder)
    assert_one_sentence(error.value)
    assert snapshot(folder, "events.jsonl") == before
    CASES["progress with checksum"] += 1


def test_the_damage_was_manifold(show: Callable[[str], None]) -> None:
    if len(CASES) < 6:
        pytest.skip("not all tests of this file were run")
    show(f"{CASES.total()} cases of damage refused: {dict(CASES)}")
    assert CASES.total() >= 400
