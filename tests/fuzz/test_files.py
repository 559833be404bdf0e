from __future__ import annotations

import io
import os
import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from torch_geometric.data import Batch, Data, HeteroData

from delome import Graph, load_graph
from delome.datasets.sources import files

Attempt = Callable[[Callable[[], Any]], Any]

pytestmark = pytest.mark.usefixtures("repeated_warnings")


def good_arrays() -> dict[str, Any]:
    """8 nodes in a ring, 3 sparse features, 2 classes."""
    adjacency = sp.csr_array(np.roll(np.eye(8), 1, axis=0))
    features = sp.csr_array(np.arange(24, dtype=np.float32).reshape(8, 3) % 4)
    parts = ("data", "indices", "indptr", "shape")
    arrays = {f"adj_{part}": np.array(getattr(adjacency, part)) for part in parts}
    arrays |= {f"attr_{part}": np.array(getattr(features, part)) for part in parts}
    return arrays | {"labels": np.repeat([0, 1], 4), "class_names": np.array(["a", "b"])}


def good_data() -> Data:
    ring = torch.arange(8)
    return Data(x=torch.eye(8), edge_index=torch.stack([ring, ring.roll(1)]), y=ring // 4)


def written(write: Callable[[io.BytesIO], object]) -> bytes:
    buffer = io.BytesIO()
    write(buffer)
    return buffer.getvalue()


GOOD = {
    "stored.npz": written(lambda file: np.savez(file, **good_arrays())),
    "compressed.npz": written(lambda file: np.savez_compressed(file, **good_arrays())),
    "data.pt": written(lambda file: torch.save(good_data(), file)),
}
DIGIT_IMAGE = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"


class Trap:
    """Makes a folder when it is unpickled."""

    def __init__(self, sprung: str) -> None:
        self.sprung = sprung

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return os.mkdir, (self.sprung,)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the files of this module are written, one after the other."""
    return tmp_path_factory.mktemp("files")


def assert_loads_or_is_refused(file: Path, attempt: Attempt) -> Graph | None:
    """The one claim of this module; a refusal leaves nothing beside the file."""
    before = sorted(file.parent.iterdir())
    graph = attempt(lambda: load_graph(f"file:{file}"))
    assert sorted(file.parent.iterdir()) == before
    if graph is not None:
        assert graph.num_nodes > 0 and graph.num_features > 0
        graph.adjacency.check_format(full_check=True)
        assert np.isfinite(graph.features.data if sp.issparse(graph.features) else graph.features).all()
        assert graph.labels is None or (graph.labels.min() >= -1 and len(graph.labels) == graph.num_nodes)
    return graph


@dataclass(frozen=True)
class Damage:
    """Something that happens to files: cut off, a bit flipped, bytes lost, repeated, added or overwritten."""

    kind: str
    place: float
    length: int = 1
    noise: bytes = b"("

    def __call__(self, content: bytes) -> bytes:
        start = int(self.place * len(content))
        head, tail = content[:start], content[start:]
        flipped = bytes(byte ^ (1 << self.length % 8) for byte in tail[:1]) + tail[1:]
        return {
            "cut": head,
            "flip": head + flipped,
            "lose": head + tail[self.length :],
            "repeat": head + tail[: self.length] + tail,
            "insert": head + self.noise + tail,
            "overwrite": head + self.noise + tail[len(self.noise) :],
            "begin later": tail,
        }[self.kind]


damages = st.builds(
    Damage,
    st.sampled_from(["cut", "flip", "lose", "repeat", "insert", "overwrite", "begin later"]),
    st.floats(0, 1, exclude_max=True),
    st.integers(1, 40),
    st.binary(min_size=1, max_size=12) | st.sampled_from([b"\xff" * 8, b"\0" * 8, b"(", b"\x80"]),
)


@pytest.mark.slow
@settings(max_examples=400)
@given(name=st.sampled_from(list(GOOD)), how=st.lists(damages, min_size=1, max_size=3))
@example(name="data.pt", how=[Damage("insert", 0.0, noise=b"\x80")])
def test_a_damaged_file_is_refused_or_still_a_graph(
    name: str, how: list[Damage], folder: Path, attempt: Attempt
) -> None:
    content = GOOD[name]
    for damage in how:
        content = damage(content)
    (folder / name).write_bytes(content)
    assert_loads_or_is_refused(folder / name, attempt)


def with_damaged_member(content: bytes, member: int, how: list[Damage]) -> bytes:
    """The archive with one member damaged before it was packed: its checksum is right, so readers go on to read it."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    chosen = list(members)[member % len(members)]
    for damage in how:
        members[chosen] = damage(members[chosen])
    return zipped(members)


def zipped(members: dict[str, bytes]) -> bytes:
    def write(file: io.BytesIO) -> None:
        with zipfile.ZipFile(file, "w") as archive:
            for name, content in members.items():
                archive.writestr(name, content)

    return written(write)


@pytest.mark.slow
@settings(max_examples=500)
@given(name=st.sampled_from(list(GOOD)), member=st.integers(0, 9), how=st.lists(damages, min_size=1, max_size=2))
@example(name="stored.npz", member=0, how=[Damage("cut", 0.0)])
@example(name="stored.npz", member=8, how=[Damage("cut", 0.0)])
@example(name="stored.npz", member=9, how=[Damage("repeat", 0.5, 2)])
@example(name="data.pt", member=0, how=[Damage("repeat", 0.0)])
def test_a_damaged_member_of_an_archive_is_refused_or_still_a_graph(
    name: str, member: int, how: list[Damage], folder: Path, attempt: Attempt
) -> None:
    (folder / name).write_bytes(with_damaged_member(GOOD[name], member, how))
    assert_loads_or_is_refused(folder / name, attempt)


other_files = st.one_of(
    st.binary(max_size=300),
    st.text(max_size=50).map(str.encode),
    st.binary(max_size=30).map(lambda tail: DIGIT_IMAGE + tail),
    st.binary(max_size=30).map(lambda tail: b"PK\x03\x04" + tail),
    st.binary(max_size=30).map(lambda tail: b"PK\x05\x06" + bytes(18) + tail),
    st.binary(max_size=30).map(lambda tail: b"\x93NUMPY\x01\x00" + tail),
    st.dictionaries(
        st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=8)
        | st.sampled_from(["labels.npy", "data/data.pkl", "a/version", "../x"]),
        st.binary(max_size=40) | st.sampled_from([b"3\n", pickle.dumps({}), b"\x93NUMPY\x01\x00v\x00{}"]),
        max_size=4,
    ).map(zipped),
    st.sampled_from([
        b"",
        written(lambda file: np.save(file, np.ones(3))),
        written(lambda file: np.savez(file)),
        written(lambda file: torch.save(good_data(), file, _use_new_zipfile_serialization=False)),
        pickle.dumps({"x": 1}),
        GOOD["stored.npz"],
        GOOD["data.pt"],
    ]),
)  # fmt: skip


@pytest.mark.slow
@settings(max_examples=250)
@given(content=other_files, suffix=st.sampled_from([".npz", ".pt"]))
def test_a_file_of_another_kind_is_refused(content: bytes, suffix: str, folder: Path, attempt: Attempt) -> None:
    assume((content, suffix) not in [(GOOD["stored.npz"], ".npz"), (GOOD["data.pt"], ".pt")])
    file = folder / f"other{suffix}"
    file.write_bytes(content)
    assert assert_loads_or_is_refused(file, attempt) is None


odd_arrays = st.one_of(
    hnp.arrays(hnp.scalar_dtypes(), hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=9)),
    hnp.arrays(np.int64, st.sampled_from([(2,), (8,), (9,), (12,)]), elements=st.integers(-2, 9)),
    hnp.arrays(np.float64, st.sampled_from([(8,), (8, 3), (16,)])),
    st.tuples(*[st.sampled_from([-8, -1, 0, 1, 3, 8, 9, 2**31, 10**12, 2**62, 2**63 - 1])] * 2).map(np.array),
    st.sampled_from([
        np.array([2**63, 2**64 - 1], dtype=np.uint64),
        np.array([8.0, 8.0]),
        np.array([np.nan, 8]),
        np.array(8),
        np.array([], dtype=int),
        np.array([8, 8, 8]),
        np.array(["8", "8"]),
        np.array([True, True]),
        np.zeros(2, dtype="i4,f4"),
        np.array([0, 1, 2, 3, 4, 5, 6, 7, 0]),
        np.array([0, 8, 0, 8, 0, 8, 0, 8, 8]),
        np.array([b"a", b"\xff"]),
        np.array([["a", "b"]]),
        np.array("ab"),
        np.array(["NaT", "NaT"], dtype="M8[s]"),
    ]),
)  # fmt: skip


@pytest.mark.slow
@settings(max_examples=500)
@given(
    changes=st.dictionaries(
        st.sampled_from([*good_arrays(), "features"]), odd_arrays | st.none(), min_size=1, max_size=3
    )
)
@example(changes={"adj_shape": np.array([10**12, 10**12])})
@example(changes={"adj_shape": np.array([8, 10**12])})
@example(changes={"attr_shape": np.array([8, 10**12])})
@example(changes={"attr_shape": np.array([2**63, 3], dtype=np.uint64)})
@example(changes={"adj_indptr": np.array([0, 8, 0, 8, 0, 8, 0, 8, 0])})
@example(changes={"attr_indptr": np.array([0, 8, 0, 8, 0, 8, 0, 8, 0])})
@example(changes={"class_names": np.array("ab")})
@example(changes={"class_names": np.array(5)})
@example(changes={"class_names": np.array([["a", "b"]])})
@example(changes={"attr_data": np.array([1.0] * 18, dtype=np.float16)})
def test_an_archive_with_odd_arrays_is_refused_or_a_graph(
    changes: dict[str, np.ndarray | None], folder: Path, attempt: Attempt
) -> None:
    arrays = {name: array for name, array in (good_arrays() | changes).items() if array is not None}
    np.savez(folder / "odd.npz", **arrays)
    assert_loads_or_is_refused(folder / "odd.npz", attempt)


headers = st.builds(
    "{{'descr': {}, 'fortran_order': {}, 'shape': {}, }}".format,
    st.sampled_from(["'<i8'", "'|O'", "'<f4'", "'<U1000000000'", "'nonsense'", "[('a', '<i8')]", "5", "'<M8[s]'"]),
    st.sampled_from(["False", "True", "0", "None"]),
    st.sampled_from(["(8,)", "(8L,)", "(10**12,)", "(1000000000000,)", "(-8,)", "(True,)", "()", "8", "('8',)"])
    | st.sampled_from(
        ["(4611686018427387904, 4)", "(9" + "9" * 30 + ",)", "(3037000500, 3037000500)", "(0, 10000000)"]
    ),
)


@pytest.mark.slow
@settings(max_examples=200)
@given(
    name=st.sampled_from(["labels", "adj_indices", "attr_data", "features", "extra"]),
    header=headers
    | st.text(max_size=40)
    | st.sampled_from(["{", "{}", "{1: 2, 'a': 3}", "(" * 300, "[]", "'" * 3, "\n" * 9]),
    version=st.sampled_from([b"\x01\x00", b"\x02\x00", b"\x03\x00", b"\x09\x09"]),
    data=st.binary(max_size=64),
)
@example(
    name="labels",
    header="{'descr': '<i8', 'fortran_order': False, 'shape': (1000000000000,), }",
    version=b"\x01\x00",
    data=b"",
)
@example(
    name="labels",
    header="{'descr': '<i8', 'fortran_order': False, 'shape': (8L,), }",
    version=b"\x01\x00",
    data=bytes(64),
)
@example(name="labels", header="(", version=b"\x01\x00", data=b"")
@example(name="labels", header="{1: 2, 'a': 3}", version=b"\x01\x00", data=b"")
@example(name="extra", header="x" * 20_000, version=b"\x01\x00", data=b"")
def test_an_array_with_an_odd_header_is_refused_or_read(
    name: str, header: str, version: bytes, data: bytes, folder: Path, attempt: Attempt
) -> None:
    text = header.encode("utf-8")
    size = len(text).to_bytes(2 if version == b"\x01\x00" else 4, "little")
    with zipfile.ZipFile(io.BytesIO(GOOD["stored.npz"])) as archive:
        members = {member: archive.read(member) for member in archive.namelist()}
    file = folder / "header.npz"
    file.write_bytes(zipped(members | {f"{name}.npy": b"\x93NUMPY" + version + size + text + data}))
    assert_loads_or_is_refused(file, attempt)


plain = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(max_size=5),
        st.binary(max_size=5),
        st.sampled_from([torch.ones(2), torch.tensor(1j), torch.eye(2).to_sparse(), torch.float32, torch.Size([2])]),
        st.sampled_from([torch.nn.Parameter(torch.ones(1)), torch.device("cpu"), OrderedDict(a=1), complex(1, 2)]),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
tensors = st.one_of(
    st.sampled_from([
        torch.ones(8, 3),
        torch.ones(8),
        torch.zeros(8, dtype=torch.long),
        torch.ones(1).expand(10**7, 10**7),
        torch.zeros(1, dtype=torch.long).expand(2, 10**12),
        torch.zeros(1, dtype=torch.long).expand(10**12),
        torch.ones(8, 3, dtype=torch.bfloat16),
        torch.ones(8, 3, dtype=torch.complex64),
        torch.ones(8, 3, requires_grad=True),
        torch.full((8, 3), torch.nan),
        torch.eye(8).to_sparse(),
        torch.sparse_coo_tensor(torch.tensor([[0, 99], [0, 1]]), [1.0, 1.0], (8, 3), check_invariants=False),
        torch.sparse_coo_tensor(torch.tensor([[0, -1], [0, 1]]), [1.0, 1.0], (8, 3), check_invariants=False),
        torch.tensor([[0, 99], [1, 2]]),
        torch.tensor([[0, -1], [1, 2]]),
        torch.empty(8, 3, device="meta"),
        torch.empty(0),
        torch.empty(0, 3),
        torch.tensor(5),
    ])
)  # fmt: skip


@st.composite
def saved_objects(draw: st.DrawFn) -> Any:
    """A PyG object or another one; anywhere in it there may be a trap (written as the word)."""
    trap = st.just("TRAP")
    fields = {
        name: draw(tensors | plain | trap)
        for name in draw(st.lists(st.sampled_from(["x", "edge_index", "y", "extra"]), max_size=3, unique=True))
    }
    kind = draw(st.sampled_from(["data", "data", "data", "hetero", "batch", "plain", "class"]))
    if kind == "data":
        data = good_data()
        for name, value in fields.items():
            data[name] = value
        return data
    if kind == "hetero":
        hetero = HeteroData()
        hetero["paper"].x = fields.get("x")
        return hetero
    if kind == "batch":
        return Batch.from_data_list([good_data()])
    return (
        draw(plain | trap)
        if kind == "plain"
        else draw(st.sampled_from([Data, np.ones(3), range(3), {1, 2}, Graph, int]))
    )


def with_traps(content: Any, sprung: Path) -> Any:
    if isinstance(content, str) and content == "TRAP":
        return Trap(str(sprung))
    if isinstance(content, Data):
        for name, value in content.to_dict().items():
            content[name] = with_traps(value, sprung)
    return content


@pytest.mark.slow
@settings(max_examples=300)
@given(content=saved_objects(), zip_format=st.integers(0, 9).map(bool))
@example(content=Trap("elsewhere"), zip_format=True)
@example(content={"x": torch.ones(2)}, zip_format=True)
@example(content=Data(x=torch.ones(1).expand(10**7, 10**7)), zip_format=True)
@example(
    content=Data(x=torch.ones(3, 1), edge_index=torch.zeros(1, dtype=torch.long).expand(2, 10**12)), zip_format=True
)
def test_a_saved_object_is_a_graph_or_refused_and_nothing_in_it_is_run(
    content: Any, zip_format: bool, folder: Path, attempt: Attempt
) -> None:
    sprung = folder / "sprung"
    try:
        torch.save(with_traps(content, sprung), folder / "object.pt", _use_new_zipfile_serialization=zip_format)
    except (AttributeError, TypeError, NotImplementedError, RuntimeError, pickle.PicklingError):
        assume(False)
    assert_loads_or_is_refused(folder / "object.pt", attempt)
    assert not sprung.exists()


@pytest.mark.slow
@settings(max_examples=50)
@given(names=st.lists(st.sampled_from([*good_arrays(), "features", "node_names"]), min_size=1, max_size=3, unique=True))
def test_pickled_arrays_are_never_unpickled(names: list[str], folder: Path, attempt: Attempt) -> None:
    sprung = folder / "sprung"
    traps = {name: np.array([Trap(str(sprung))] * 8, dtype=object) for name in names}
    np.savez(folder / "trap.npz", **good_arrays() | traps)
    assert_loads_or_is_refused(folder / "trap.npz", attempt)
    assert not sprung.exists()


def test_the_trap_of_these_tests_springs_when_it_is_unpickled(tmp_path: Path) -> None:
    pickle.loads(pickle.dumps(Trap(str(tmp_path / "sprung"))))
    assert (tmp_path / "sprung").is_dir()


paths = st.one_of(
    st.text(max_size=30),
    st.text("./~,:=\\ a\0\n\x1b*?[]", max_size=12),
    st.sampled_from(["~nobody-of-this-name/graph", "~", "~/", "", ".", "..", "/", "//", "/dev/null", "/proc/self/mem"]),
    st.sampled_from(["a\0b", "-", "\ud800", "x" * 250, "x" * 300, "x/" * 2000, "/".join(["x" * 200] * 30)]),
    st.sampled_from(["loop", "folder", "dangling", "pipe"]),
)


@pytest.mark.slow
@settings(max_examples=250)
@given(
    path=paths,
    suffix=st.sampled_from([".npz", ".pt", "", ".npz,undirected=maybe", ".npz,undirected=", ".NPZ", ".npz/"]),
)
@example(path="~nobody-of-this-name/graph", suffix=".npz")
@example(path="x" * 300, suffix=".npz")
@example(path="a\0b", suffix=".npz")
@example(path="a\nb", suffix=".npz")
@example(path="\x1b[31mred", suffix=".npz")
@example(path="loop", suffix=".npz")
def test_a_path_to_no_graph_is_refused(path: str, suffix: str, folder: Path, attempt: Attempt) -> None:
    for kind in (".npz", ".pt"):
        loop, place, dangling, pipe = (folder / f"{name}{kind}" for name in ("loop", "folder", "dangling", "pipe"))
        if not place.exists():
            loop.symlink_to(loop)
            place.mkdir()
            dangling.symlink_to(folder / "absent")
            os.mkfifo(pipe)
    within = path if path.startswith(("/", "~")) else f"{folder}/{path}"
    assert attempt(lambda: load_graph(f"file:{within}{suffix}")) is None
    assert attempt(lambda: files.load(f"{within}{suffix}")) is None


@pytest.mark.parametrize("suffix", [".npz", ".pt"])
def test_an_archive_that_claims_to_span_several_disks_is_refused(suffix: str, tmp_path: Path, attempt: Attempt) -> None:
    end = GOOD["data.pt"].index(b"PK\x06\x07")
    (tmp_path / f"disks{suffix}").write_bytes(GOOD["data.pt"][: end + 4] + b"\x01" + GOOD["data.pt"][end + 5 :])
    assert assert_loads_or_is_refused(tmp_path / f"disks{suffix}", attempt) is None


@pytest.mark.parametrize("name", GOOD)
def test_the_files_that_are_damaged_here_are_good(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(GOOD[name])
    assert (load_graph(f"file:{tmp_path / name}").num_nodes, load_graph(f"file:{tmp_path / name}").num_edges) == (8, 16)
