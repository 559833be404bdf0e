from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from torch_geometric.data import Data, HeteroData

from delome import Graph
from delome.errors import GraphError

Attempt = Callable[[Callable[[], Any]], Any]

pytestmark = pytest.mark.usefixtures("repeated_warnings")

DTYPES = [
    *("?", "i1", "u1", ">i2", "u2", "i4", ">u4", "i8", "u8", "f2", "f4", ">f4", "f8", "g", "F", "D"),
    *("O", "U3", "S3", "M8[D]", "m8[s]", "V4", "i4,f4"),
]
TENSOR_TYPES = [
    *(
        torch.bfloat16,
        torch.float16,
        torch.float64,
        torch.complex64,
        torch.bool,
        torch.uint8,
        torch.int16,
        torch.uint64,
    ),
    *(torch.float8_e4m3fn, torch.complex32),
]
SPARSE = ["csr", "csc", "bsr", "coo", "lil", "dok", "dia"]
NOTHING_LIKE_AN_ARRAY: list[Callable[[], Any]] = [
    lambda: None,
    lambda: 5,
    lambda: -2.5,
    lambda: True,
    lambda: float("nan"),
    lambda: "graph",
    lambda: b"graph",
    lambda: [],
    lambda: {},
    lambda: {0, 1},
    lambda: {"x": [1]},
    lambda: [None],
    lambda: [[]],
    lambda: ["a", 1],
    lambda: [10**400, 0.5],
    lambda: [[2**64, -1]],
    lambda: [[object()]],
    lambda: (number for number in range(3)),
    lambda: range(10**12),
    lambda: memoryview(b"abc"),
    lambda: memoryview(bytes(24)).cast("d"),
    lambda: released(memoryview(b"abc")),
    lambda: np.float32(1),
    lambda: np.int64(-1),
    lambda: np.bool_(True),
    lambda: np.datetime64("NaT"),
    lambda: np.array(["a"], dtype=np.dtypes.StringDType()),
    lambda: np.broadcast_to(np.float32(1), (10**7, 10**7)),
    lambda: np.ma.masked_all((3, 2)),
    lambda: nested_in_itself(),
    lambda: object(),
    lambda: int,
    lambda: print,
    lambda: Unwilling(),
    lambda: SimpleNamespace(shape=(3, 2), dtype=np.float32),
    lambda: torch.empty(()),
    lambda: torch.empty(3, 2, device="meta"),
    lambda: torch.nn.Parameter(torch.ones(3, 2)),
    lambda: Graph([[0], [1]], np.ones((2, 1))),
    lambda: sp.coo_array(np.ones(3)),
    lambda: sp.coo_array(np.ones((3, 2, 2))),
    lambda: sp.csr_array((0, 0)),
    lambda: sp.coo_array(([1.0], ([2], [0])), shape=(10**13, 1)),
]


class Unwilling:
    """Has the methods of an array, and all of them fail."""

    def __array__(self, *_: object, **__: object) -> np.ndarray:
        raise RuntimeError("never")

    def __repr__(self) -> str:
        raise RuntimeError("never")


def released(view: memoryview) -> memoryview:
    view.release()
    return view


def nested_in_itself() -> list[Any]:
    loop: list[Any] = []
    loop.append(loop)
    return loop


def unwarned(make: Callable[..., Any], *given: Any) -> Any:
    """What is made without the warnings that making it brings: they are not delome's."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return make(*given)


Change = Callable[[np.ndarray], Any]


def as_dtype(dtype: str) -> Change:
    def change(array: np.ndarray) -> np.ndarray:
        try:
            return array.astype(dtype)
        except (TypeError, ValueError):
            return np.zeros(array.shape, dtype=dtype)

    return change


def as_tensor(dtype: torch.dtype | None) -> Change:
    def change(array: np.ndarray) -> torch.Tensor:
        tensor = torch.from_numpy(np.ascontiguousarray(array.astype(array.dtype.newbyteorder("="))))
        return tensor if dtype is None else tensor.to(dtype)

    return change


def as_sparse_tensor(layout: str, odd: str) -> Change:
    def change(array: np.ndarray) -> torch.Tensor:
        tensor = torch.from_numpy(np.ascontiguousarray(array))
        if odd == "grad" and tensor.is_floating_point():
            tensor.requires_grad_()
        elif odd == "bfloat16":
            tensor = tensor.bfloat16()
        elif odd == "complex":
            tensor = tensor.to(torch.complex64)
        if layout == "hybrid":
            return tensor.to_sparse(1)
        if layout == "coo" or tensor.ndim != 2:
            return tensor.to_sparse()
        if layout == "bsr":
            return tensor.to_sparse_bsr((1, 1))
        return getattr(tensor, f"to_sparse_{layout}")()

    return change


def as_broken_sparse_tensor(value: int) -> Change:
    """A COO tensor with an index that leads outside: torch itself would follow it."""

    def change(array: np.ndarray) -> torch.Tensor:
        shape = array.shape if array.ndim == 2 else (3, 2)
        return torch.sparse_coo_tensor(torch.tensor([[0, value], [0, 0]]), [1.0, 1.0], shape, check_invariants=False)

    return change


def as_broken_csr_tensor(starts: list[int], within: list[int]) -> Change:
    def change(array: np.ndarray) -> torch.Tensor:
        return torch.sparse_csr_tensor(starts, within, [1.0] * len(within), (3, 2), check_invariants=False)

    return change


def as_scipy(form: str, matrix: bool) -> Change:
    def change(array: np.ndarray) -> Any:
        kind = getattr(sp, f"{form}_{'matrix' if matrix else 'array'}")
        return kind(array if array.ndim == 2 and array.dtype.kind in "fiub" else np.ones((3, 2)))

    return change


def as_broken_scipy(form: str, part: str, place: int, value: int) -> Change:
    """A scipy matrix one of whose index arrays was changed behind its back."""

    def change(array: np.ndarray) -> Any:
        matrix = as_scipy(form, matrix=False)(array)
        if form == "lil":
            matrix.rows[place % matrix.shape[0]] = [value]
        elif form == "dok":
            matrix._dict[value, 0] = 1.0
        else:
            indices = {"coo": "row", "dia": "offsets"}.get(form, part)
            changed = getattr(matrix, indices).copy()
            if len(changed):
                changed[place % len(changed)] = value
            if form == "coo":
                matrix.coords = (changed, matrix.coords[1])
            else:
                setattr(matrix, indices, changed)
        return matrix

    return change


def as_short_scipy(form: str) -> Change:
    def change(array: np.ndarray) -> Any:
        matrix = as_scipy(form, matrix=False)(array)
        if form == "dok":
            matrix._dict[0, 0, 0] = 1.0
        else:
            matrix.data = matrix.data[:-1]
        return matrix

    return change


def with_value(value: float) -> Change:
    def change(array: np.ndarray) -> np.ndarray:
        changed = array.astype(np.float64)
        changed.flat[:1] = value
        return changed

    return change


def ragged(array: np.ndarray) -> Any:
    rows = array.tolist()
    if isinstance(rows, list) and rows:
        rows[-1] = rows[-1][:-1] if isinstance(rows[-1], list) else [rows[-1]]
    return rows


def signalling_nan(array: np.ndarray) -> np.ndarray:
    return np.full(array.shape, 0x7FF0000000000001, dtype=np.uint64).view(np.float64)


CHANGES: list[Change] = [
    lambda array: array.tolist(),
    lambda array: array.T,
    lambda array: array[None],
    lambda array: array[..., None],
    lambda array: array.ravel(),
    lambda array: array[:-1],
    lambda array: array[..., :-1],
    lambda array: array[:0],
    lambda array: array[..., :0],
    lambda array: array[::-1],
    lambda array: np.asfortranarray(array),
    lambda array: np.lib.stride_tricks.as_strided(array, array.shape, writeable=False),
    lambda array: (row for row in array),
    lambda array: np.ascontiguousarray(array).data,
    lambda array: np.ma.masked_equal(array, 0),
    lambda array: np.eye(3)[array.astype(int) % 3],
    lambda array: torch.from_numpy(array.astype(np.complex64)).conj(),
    lambda array: torch.from_numpy(array.astype(np.complex64)).conj().imag,
    lambda array: torch.quantize_per_tensor(torch.from_numpy(array.astype(np.float32)), 1.0, 0, torch.quint8),
    lambda array: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
    lambda array: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged),
    ragged,
    signalling_nan,
]


forms = st.sampled_from(SPARSE)
indices = st.sampled_from([-(2**31), -7, -1, 0, 1, 2, 3, 99, 2**31 - 1])
starts = st.lists(st.integers(-2, 9), min_size=2, max_size=2).map(lambda inner: [0, *inner, 2])
numbers = st.floats() | st.sampled_from([np.nan, np.inf, -np.inf, 1e300, -1.0, -2.0, 0.5, 2.0**63, 3e38])

# one way to spoil an array, or to give it in another form
changes: st.SearchStrategy[Change] = st.one_of(
    st.sampled_from(CHANGES),
    st.sampled_from(DTYPES).map(as_dtype),
    st.sampled_from([None, *TENSOR_TYPES]).map(as_tensor),
    st.builds(
        as_sparse_tensor,
        st.sampled_from(["coo", "csr", "csc", "bsr", "hybrid"]),
        st.sampled_from(["", "grad", "bfloat16", "complex"]),
    ),
    st.builds(as_broken_sparse_tensor, indices),
    st.builds(as_broken_csr_tensor, starts, st.tuples(indices, st.just(0)).map(list)),
    st.builds(as_scipy, forms, st.booleans()),
    st.builds(as_broken_scipy, forms, st.sampled_from(["indices", "indptr"]), st.integers(-2, 4), indices),
    st.builds(as_short_scipy, forms),
    st.builds(with_value, numbers),
)


@st.composite
def arguments(draw: st.DrawFn) -> dict[str, Any]:
    """Edges, features and labels of a small graph, one or two of them changed or replaced."""
    nodes, width = draw(st.integers(1, 5)), draw(st.integers(1, 3))
    node = st.integers(0, nodes - 1)
    given: dict[str, Any] = {
        "edge_index": np.array(draw(st.lists(st.tuples(node, node), max_size=6)), dtype=np.int64).reshape(-1, 2).T,
        "features": draw(hnp.arrays(np.float32, (nodes, width), elements=st.integers(-3, 3))),
        "labels": draw(hnp.arrays(np.int64, nodes, elements=st.integers(-1, 3))),
    }
    for name in draw(st.lists(st.sampled_from(list(given)), max_size=2, unique=True)):
        kind = draw(st.integers(0, 9))
        if kind == 0:
            given[name] = unwarned(draw(st.sampled_from(NOTHING_LIKE_AN_ARRAY)))
        elif kind == 1:
            dtype = draw(hnp.scalar_dtypes() | hnp.array_dtypes())
            given[name] = draw(hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5)))
        else:
            try:
                given[name] = unwarned(draw(changes), given[name])
            except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError, OverflowError):
                continue  # there is no such array
    return given


class_names = st.one_of(
    st.none(),
    st.lists(st.text(max_size=3), max_size=5),
    st.lists(st.one_of(st.none(), st.integers(), st.floats(), st.binary(max_size=2), st.text(max_size=2)), max_size=5),
    st.sampled_from(["abcd", b"abcd", 5, {}, {"a"}, object(), print, np.array("a"), np.array(["a", "b", "c", "d"])]),
    st.sampled_from([np.array([["a"], ["b"]]), np.arange(5), np.array([b"a", b"\xff", b"c", b"d"]), range(4)]),
    st.sampled_from([[["a"], ["b"], ["c"], ["d"]], [Unwilling()] * 4, np.array([None] * 4)]),
)


def assert_valid(graph: Graph) -> None:
    """What every method relies on."""
    nodes = graph.num_nodes
    values = graph.features.data if sp.issparse(graph.features) else graph.features
    assert values.dtype == np.float32 and np.isfinite(values).all()
    assert graph.features.ndim == 2 and nodes > 0 and graph.num_features > 0
    if sp.issparse(graph.features):
        graph.features.check_format(full_check=True)
        assert graph.features.has_canonical_format
    graph.adjacency.check_format(full_check=True)
    assert graph.adjacency.shape == (nodes, nodes) and graph.adjacency.dtype == bool
    assert not graph.adjacency.diagonal().any()
    if graph.labels is not None:
        assert graph.labels.dtype == np.int64 and graph.labels.shape == (nodes,) and graph.labels.min() >= -1
    if graph.class_names is not None:
        assert all(type(name) is str for name in graph.class_names)
        assert graph.labels is None or len(graph.class_names) > graph.labels.max()
    assert repr(graph).startswith(f"Graph(nodes={nodes}, ")
    if graph.num_features < 1000:
        assert graph.propagate(2).shape == graph.features.shape
        assert graph.subgraph(np.array([nodes - 1])).num_nodes == 1


@pytest.mark.slow
@settings(max_examples=1200)
@given(given=arguments(), undirected=st.booleans())
def test_arrays_are_a_graph_or_refused(given: dict[str, Any], undirected: bool, attempt: Attempt) -> None:
    graph = attempt(lambda: Graph(**given, undirected=undirected))
    if graph is not None:
        assert_valid(graph)


whole = st.integers(-3, 6) | st.sampled_from([2**31, 2**62, -(2**62), 127, -128, 255])


@st.composite
def contents(draw: st.DrawFn) -> dict[str, Any]:
    """Arrays in the form they should have, with any numbers in them."""
    nodes = draw(st.integers(1, 4))
    dtype, wide = draw(st.sampled_from(["i1", "u1", "i4", "u8", ">i8"])), draw(st.sampled_from(["f2", "f4", "f8", "g"]))
    edges = draw(st.lists(st.tuples(whole, whole), max_size=3)) if draw(st.booleans()) else []
    features = draw(hnp.arrays(np.float64, (nodes, 2), elements=numbers if draw(st.booleans()) else st.integers(0, 2)))
    labels = draw(st.lists(whole, min_size=nodes, max_size=nodes))
    return {
        "edge_index": unwarned(np.array(edges, dtype=np.int64).reshape(-1, 2).T.astype, dtype),
        "features": unwarned(features.astype, wide),
        "labels": unwarned(np.array(labels).astype, dtype),
    }


@pytest.mark.slow
@settings(max_examples=500)
@given(given=contents(), undirected=st.booleans())
def test_numbers_are_a_graph_or_refused(given: dict[str, Any], undirected: bool, attempt: Attempt) -> None:
    graph = attempt(lambda: Graph(**given, undirected=undirected))
    fits = [
        bool(np.isfinite(unwarned(given["features"].astype, np.float32)).all()),
        bool((given["edge_index"] >= 0).all() and (given["edge_index"] < len(given["features"])).all()),
        bool((given["labels"] >= -1).all() and (given["labels"] < 2**63).all()),
    ]
    assert (graph is not None) == all(fits)
    if graph is not None:
        assert_valid(graph)


@pytest.mark.slow
@settings(max_examples=150)
@given(names=class_names, labels=st.none() | st.lists(st.integers(-1, 4), min_size=2, max_size=2))
def test_class_names_fit_the_labels_or_are_refused(names: Any, labels: list[int] | None, attempt: Attempt) -> None:
    graph = attempt(lambda: Graph([[0], [1]], [[1.0], [2.0]], labels, class_names=names))
    if graph is not None:
        assert_valid(graph)


@st.composite
def pyg_data(draw: st.DrawFn) -> Any:
    """A PyG object with some of the fields of a graph, and others."""
    given = draw(arguments())
    fields = {"x": given["features"], "edge_index": given["edge_index"], "y": given["labels"]}
    tensors = draw(st.booleans())
    chosen = {
        name: unwarned(as_tensor(None), value)
        if tensors and isinstance(value, np.ndarray) and value.dtype.kind in "biuf" and value.itemsize <= 8
        else value
        for name, value in fields.items()
        if draw(st.integers(0, 4))
    }
    kind = draw(st.sampled_from([Data, Data, Data, SimpleNamespace, HeteroData, dict]))
    if kind is not HeteroData:
        return kind(**chosen)
    hetero = HeteroData()
    if "x" in chosen:
        hetero["paper"].x = chosen["x"]
    return hetero


@pytest.mark.slow
@settings(max_examples=300)
@given(data=pyg_data() | st.sampled_from([None, 5, "data", Data, HeteroData(), torch.ones(2), object()]))
def test_a_pyg_object_is_a_graph_or_refused(data: Any, attempt: Attempt) -> None:
    graph = attempt(lambda: Graph.from_pyg(data))
    if graph is not None:
        assert_valid(graph)


@pytest.mark.parametrize("make", NOTHING_LIKE_AN_ARRAY)
def test_what_is_nothing_like_an_array_is_refused_wherever_it_is_given(
    make: Callable[[], Any], attempt: Attempt
) -> None:
    good: dict[str, Any] = {"edge_index": [[0], [1]], "features": [[1.0], [2.0], [3.0]], "labels": [0, 1, 1]}

    def with_other(name: str) -> Graph:
        return Graph(**good | {name: unwarned(make)})

    for name in good:
        graph = attempt(partial(with_other, name))
        if graph is not None:
            assert_valid(graph)


def broken(form: str, **parts: Any) -> Any:
    """A sparse matrix of 3 × 2 ones with other parts."""
    matrix = getattr(sp, f"{form}_array")(np.ones((3, 2)))
    for name, value in parts.items():
        setattr(matrix, name, value)
    return matrix


@pytest.mark.parametrize(
    "features",
    [
        broken("csr", indices=np.array([0, 99, 0, 1, 0, 1])),
        broken("csr", indices=np.array([0, 1, 0, 1, 0, 0.5])),
        broken("csr", indptr=np.array([0, 10**6, 4, 6])),
        broken("csr", indptr=np.array([0, 4, 6, 0])),
        broken("csc", indices=np.array([0, 1, 2, 0, 1, -7])),
        broken("csc", indptr=np.array([0, 3, 0])),
        broken("bsr", indptr=np.array([0, 2, 10**6, 6])),
        broken("coo", coords=(np.full(6, 99), np.zeros(6, dtype=int))),
        broken("dia", offsets=np.array([50])),
        broken("lil", rows=np.array([[0], [1], [0, 1]], dtype=object)),
        broken("lil", rows=np.array([[0, 1]] * 6, dtype=object), data=np.array([[1.0, 1.0]] * 6, dtype=object)),
        sp.coo_array(np.ones((3, 2, 2))),
        torch.sparse_coo_tensor(torch.tensor([[0, -1], [0, 1]]), [1.0, 1.0], (3, 2), check_invariants=False),
        torch.sparse_coo_tensor(torch.tensor([[0, 9], [0, 1]]), [1.0, 1.0], (3, 2), check_invariants=False),
        torch.ones(3, 2).to_sparse(1),
        torch.ones(3, 2, 2).to_sparse(),
    ],
)
def test_sparse_features_whose_indices_lead_outside_are_refused_instead_of_followed(
    features: Any, attempt: Attempt
) -> None:
    # each of these ended the process or left a graph that would
    assert attempt(lambda: Graph([[0], [1]], features)) is None


@pytest.mark.parametrize(
    "features",
    [
        unwarned(torch.ones(3, 2).to_sparse_csr),
        unwarned(torch.ones(3, 2, dtype=torch.bfloat16).to_sparse_csc),
        torch.ones(3, 2).bfloat16().to_sparse(),
        torch.ones(3, 2, requires_grad=True).to_sparse(),
        torch.ones(3, 2).to(torch.float8_e4m3fn),
        torch.complex(torch.ones(3, 2), -torch.ones(3, 2)).conj().imag,
        torch.sparse_coo_tensor(
            torch.tensor([[0, 0, 0, 1, 1, 2, 2], [0, 0, 1, 0, 1, 0, 1]]),
            [0.5, 0.5, *[1.0] * 5],
            (3, 2),
            check_invariants=True,
        ),
    ],
)
def test_tensors_that_numpy_cannot_read_directly_are_read(features: torch.Tensor) -> None:
    read = Graph([[0], [1]], features).features
    assert np.array_equal(read.toarray() if sp.issparse(read) else read, np.ones((3, 2)))


def test_a_nan_that_signals_is_refused_without_a_warning(attempt: Attempt) -> None:
    assert attempt(lambda: Graph([[0], [1]], signalling_nan(np.ones((2, 1))))) is None


NO_CHARACTERS = np.full(2, 0x110000, dtype=np.uint32).view("<U1")


@pytest.mark.parametrize("names", ["ab", b"ab", 5, [None, "b"], [["a"], ["b"]], np.array("a"), NO_CHARACTERS])
def test_names_that_are_no_list_of_names_are_refused(names: Any) -> None:
    with pytest.raises(GraphError, match=r"class_names .+"):
        Graph([[0], [1]], [[1.0], [2.0]], [0, 1], class_names=names)


def test_an_object_without_the_fields_of_a_graph_is_refused() -> None:
    with pytest.raises(GraphError, match="has no node features"):
        Graph.from_pyg(object())
    assert Graph.from_pyg(SimpleNamespace(x=torch.ones(2, 1))).num_edges == 0
