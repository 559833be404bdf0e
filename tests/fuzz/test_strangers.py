"""Models, cached graphs and documents whose checksums agree, and whose content nobody of ours has written."""

from __future__ import annotations

import copy
import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor

import delome
from delome import Graph, Learner
from delome.datasets.fetching import converted
from delome.experiment import RunConfig, RunFolder, run
from delome.experiment.folder import CONFIG_KIND
from delome.experiment.seed_folder import RESULT_KIND
from delome.learning.learner import KIND
from delome.parameters import values_of
from delome.persistence.documents import read_document, write_document
from delome.persistence.reading import parse_json, sha256_of
from delome.persistence.state import State
from delome.persistence.state_files import MANIFEST, load_state, save_state
from delome.reporting.tables import summary_lines
from delome.streams.cut import CutStream

Attempt = Callable[[Callable[[], Any]], Any]

LEARNERS: dict[str, tuple[str, dict[str, Any]]] = {
    "finetune": ("finetune", {}),
    "gat": ("finetune", {"backbone": "gat", "setting": "til"}),
    "mas": ("mas", {}),
    "lwf": ("lwf", {"setting": "til"}),
    "replay": ("replay", {}),
    "ssm-uniform": ("ssm-uniform", {"backbone": "gcn"}),
    "hpns": ("hpns", {"setting": "til"}),
    "analytic": ("analytic", {}),
    "analytic, per task": ("analytic", {"setting": "til", "per_task": True}),
}
FEATURES = 6


def small_graph(labels: list[int], sparse: bool) -> Graph:
    nodes = 6 * len(labels)
    features = np.random.default_rng(0).integers(0, 3, size=(nodes, FEATURES)).astype(np.float32)
    ring = np.arange(nodes)
    return Graph(
        [ring, (ring + 1) % nodes],
        sp.csr_array(features) if sparse else features,
        np.repeat(labels, 6),
        undirected=True,
    )


@pytest.fixture(scope="module")
def models(
    tmp_path_factory: pytest.TempPathFactory, tiny: Callable[..., Learner]
) -> dict[str, tuple[dict[str, Any], State]]:
    """What small learners of two tasks save."""
    found = {}
    for name, (method, options) in LEARNERS.items():
        learner: Learner = tiny(method, **options)
        for labels in ([3, 5], [5, 9]):
            learner.observe(small_graph(labels, sparse=name == "replay"))
        folder = tmp_path_factory.mktemp("model")
        learner.save(folder)
        found[name] = load_state(folder, KIND)
    return found


numbers = st.sampled_from([0, 1, -1, 2, 3, 8, 2**31 - 1, 2**31, -(2**31), 2**62, 2**63, 10**30, 1.5, 1e300])
json_values = st.recursive(
    st.none() | st.booleans() | numbers | st.sampled_from(["", "a", "cpu", "privateuseone", "\x1b[2J", "\ud800"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["a", "nodes"]), inner, max_size=2),
    max_leaves=5,
)
sizes = st.sampled_from([0, 1, 2, 3, FEATURES, 8, 5_000_000, 2**31, 2**62])


@st.composite
def tensors(draw: st.DrawFn, like: Tensor) -> Tensor:
    """Another tensor in place of one: of other values, another type or another shape, as large as it likes if empty."""
    kind = draw(st.sampled_from(["values", "type", "shape", "cut", "grown", "empty"]))
    if kind == "values" and like.numel():
        changed = like.clone()
        value = draw(st.sampled_from([0, 1, -1, 7, 2**30, -(2**31), 2**31 - 1]))
        changed.view(-1)[draw(st.integers(0, like.numel() - 1))] = value
        return changed
    if kind == "type":
        return like.to(draw(st.sampled_from([torch.float64, torch.int64, torch.int32, torch.bool, torch.bfloat16])))
    if kind == "cut" and like.dim():
        return like[: draw(st.integers(0, len(like)))].clone()
    if kind == "grown" and like.dim():
        return torch.cat([like, like[:1]])
    if kind == "empty":
        shape = draw(st.lists(sizes, min_size=1, max_size=3))
        shape[draw(st.integers(0, len(shape) - 1))] = 0
        try:
            return torch.empty(shape, dtype=like.dtype)
        except RuntimeError:
            return torch.empty(0, dtype=like.dtype)
    return torch.zeros(draw(st.lists(st.integers(0, 9), max_size=3)), dtype=like.dtype)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths to all values inside a value."""
    if path:
        yield path
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in inside:
        yield from places(inner, (*path, key))


def put(document: Any, path: tuple[Any, ...], value: Any) -> None:
    for key in path[:-1]:
        document = document[key]
    document[path[-1]] = value


@pytest.mark.slow
@settings(max_examples=700)
@given(data=st.data(), name=st.sampled_from(list(LEARNERS)))
def test_a_model_of_a_stranger_is_refused_or_works(
    data: st.DataObject,
    name: str,
    models: dict[str, tuple[dict[str, Any], State]],
    tmp_path_factory: pytest.TempPathFactory,
    attempt: Attempt,
) -> None:
    about, state = copy.deepcopy(models[name])
    document = {"about": about, "values": state.values}
    for _ in range(data.draw(st.integers(0, 2))):
        inside = [path for path in places(document) if len(path) > 1]
        put(document, data.draw(st.sampled_from(inside)), data.draw(json_values))
    for tensor in data.draw(st.lists(st.sampled_from(list(state.tensors)), max_size=2, unique=True)):
        before, after = state.tensors[tensor], data.draw(tensors(state.tensors[tensor]))
        state.tensors[tensor] = after
        if data.draw(st.booleans()):  # moments and momentum go with what they belong to
            own = tensor.removeprefix("model.")
            family = [name for name, each in state.tensors.items() if own in name and each.shape == before.shape]
            state.tensors |= {name: torch.zeros_like(after, dtype=state.tensors[name].dtype) for name in family}
    folder = tmp_path_factory.mktemp("stranger")

    def save() -> bool:
        save_state(folder, KIND, about, state)
        return True

    if attempt(save):
        learner = attempt(lambda: delome.load(folder, device="cpu"))
        if learner is not None:
            assert_works(learner, models[name][0]["parameters"], attempt)


def assert_works(learner: Learner, known: dict[str, Any], attempt: Attempt) -> None:
    """What was accepted predicts and learns, or says in a sentence why not."""
    graph = small_graph([3, 9], sparse=False)
    for task in range(len(learner.columns.tasks)):
        predicted = attempt(partial(learner.predict, graph, task=task))
        assert predicted is None or set(predicted.tolist()) <= set(learner.classes)
    if values_of(learner) | {"device": None} == known | {"device": None}:  # others may take as long as they say
        attempt(lambda: learner.observe(small_graph([9, 11], sparse=False)))


@pytest.fixture(scope="module")
def cached(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Converted graphs, dense and sparse."""
    found = {}
    for name in ("dense", "sparse"):
        found[name] = tmp_path_factory.mktemp("converted") / name
        graph = small_graph([0, 1, 2, 3], sparse=name == "sparse")
        converted.write(
            Graph._trusted(graph.adjacency, graph.features, graph.labels, tuple("abcd")), found[name], {}, {}
        )
    return found


indices = st.sampled_from([0, 1, -1, 5, 6, 23, 24, 2**30, 2**31 - 1, -(2**31)])


@st.composite
def arrays(draw: st.DrawFn, like: np.ndarray) -> np.ndarray:
    """Another array in place of one."""
    kind = draw(st.sampled_from(["values", "values", "type", "cut", "grown", "shape", "order"]))
    changed = like.copy()
    if kind == "values":
        changed.reshape(-1)[draw(st.integers(0, like.size - 1))] = draw(indices)
    elif kind == "type":
        changed = changed.astype(
            draw(st.sampled_from(["<i8", "<i4", "<u4", "<f8", "<f4", "<U3", "?", ">i4", "<M8[s]"]))
        )
    elif kind == "cut":
        changed = changed[: draw(st.integers(0, len(like)))]
    elif kind == "grown":
        changed = np.concatenate([changed, changed[:1]])
    elif kind == "shape":
        changed = changed.reshape(draw(st.sampled_from([(-1,), (1, -1), (-1, 1)])))
    else:
        changed = np.asfortranarray(changed[::-1])
    return changed


@pytest.mark.slow
@settings(max_examples=500)
@given(data=st.data(), form=st.sampled_from(["dense", "sparse"]))
def test_a_converted_graph_of_a_stranger_is_noticed_or_works(
    data: st.DataObject, form: str, cached: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("stranger") / "converted"
    shutil.copytree(cached[form], folder)
    manifest = json.loads((folder / "manifest.json").read_text())
    for name in data.draw(st.lists(st.sampled_from(list(manifest["files"])), max_size=2, unique=True)):
        np.save(folder / name, data.draw(arrays(np.load(folder / name))))
        manifest["files"][name] = sha256_of(folder / name)
    if data.draw(st.booleans()):
        entries = [path for path in places(manifest) if path[0] in ("shape", "class_names", "files")]
        put(manifest, data.draw(st.sampled_from(entries)), data.draw(json_values))
    (folder / "manifest.json").write_text(json.dumps(manifest))
    graph = converted.read(folder, {}, 10**6)
    if graph is not None:
        assert graph.class_names is None or len(graph.class_names) > np.asarray(graph.labels).max()
        graph.adjacency.check_format(full_check=True)
        assert graph.propagate(2).shape == (graph.num_nodes, graph.num_features)
        assert len(graph.fingerprint()) == 64


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunConfig, CutStream, Path]:
    """A run that is finished, and one more that is not."""
    config = RunConfig.resolve(
        "synthetic:nodes=24,classes=4,features=4", "finetune", epochs=1, seeds=2, assignments=["hidden=2"]
    )
    stream, folder = config.stream(), tmp_path_factory.mktemp("run") / "run"
    with RunFolder.open(folder, config, stream) as place:
        run(config, stream, place)
    (folder / "seed-1" / "result.json").unlink()
    shutil.rmtree(folder / "seed-1" / "model")
    return config, stream, folder


@pytest.mark.slow
@settings(max_examples=300)
@given(data=st.data(), name=st.sampled_from(["config.json", "seed-0/result.json"]))
@example(data=None, name="config.json")
def test_a_run_folder_of_a_stranger_is_refused_or_goes_on(
    data: st.DataObject | None,
    name: str,
    finished: tuple[RunConfig, CutStream, Path],
    tmp_path_factory: pytest.TempPathFactory,
    attempt: Attempt,
) -> None:
    config, stream, original = finished
    folder = tmp_path_factory.mktemp("stranger") / "run"
    shutil.copytree(original, folder)
    if data is not None:
        kind = CONFIG_KIND if name == "config.json" else RESULT_KIND
        document = read_document(folder / name, kind)
        put(document, data.draw(st.sampled_from(list(places(document)))), data.draw(json_values))

        def write() -> bool:
            write_document(folder / name, kind, document)
            return True

        if not attempt(write):
            return

    def go_on() -> Any:
        with RunFolder.open(folder, config, stream) as place:
            return run(config, stream, place)

    result = attempt(go_on)
    if result is not None:
        assert [len(seed.tasks) for seed in result.seeds] == [2, 2]
        json.dumps(result.as_dict())
        attempt(lambda: summary_lines(result))


headers = st.dictionaries(
    st.sampled_from(["x", "y", "__metadata__"]),
    st.fixed_dictionaries({
        "dtype": st.sampled_from(["F32", "I64", "BOOL", "BF16", "F8_E4M3", "F4", "U64", "C64", "", 3]),
        "shape": st.lists(st.sampled_from([0, 1, 2, 4, -1, 2**31, 2**62, 2**63, 2**64, True, 1.5, "1"]), max_size=3)
        | st.sampled_from([None, "ab", 3]),
        "data_offsets": st.lists(st.sampled_from([0, 4, 8, 16, -4, 2**63, 2**64, None]), max_size=3),
    })
    | json_values,
    max_size=2,
)  # fmt: skip


@pytest.mark.slow
@settings(max_examples=500)
@given(header=headers.map(json.dumps) | st.text(max_size=20), data=st.sampled_from([0, 4, 8, 16]).map(bytes))
def test_a_tensor_file_of_a_stranger_is_refused_or_read(
    header: str, data: bytes, tmp_path_factory: pytest.TempPathFactory, attempt: Attempt
) -> None:
    folder = tmp_path_factory.mktemp("stranger")
    text = header.encode(errors="surrogatepass")
    content = len(text).to_bytes(8, "little") + text + data
    checksum = hashlib.sha256(content).hexdigest()
    (folder / f"state-{checksum[:16]}.safetensors").write_bytes(content)
    files = {f"state-{checksum[:16]}.safetensors": checksum}
    write_document(folder / MANIFEST, KIND, {"values": {}, "files": files})
    loaded = attempt(lambda: load_state(folder, KIND))
    assert loaded is None or sum(each.nbytes for each in loaded[1].tensors.values()) == len(data)


@settings(max_examples=300)
@given(
    value=st.recursive(
        st.none() | st.integers(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    )
)
def test_json_is_read_as_it_was_written(value: Any) -> None:
    assert parse_json(json.dumps(value).encode()) == value
