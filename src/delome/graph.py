"""Graph: edges as CSR, dense or sparse features, integer labels; valid by construction."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
import torch

from delome.errors import GraphError, shown
from delome.sparse import Features, checked_csr, int32_indices, times, to_dense

if TYPE_CHECKING:
    from torch_geometric.data import Data


class Graph:
    """A directed graph with node features and, unless hidden, class labels.

    Labels are whole numbers from 0 on; -1 says that the label of a node is unknown: the node has its place in
    propagation, but belongs to no class.

    ``adjacency[v, u]`` is set when there is an edge u → v, so row v lists the nodes whose messages v receives.
    Self-loops and repeated edges are removed on entry; propagation adds one self-loop to every node.

    >>> graph = Graph([[0, 1], [1, 2]], [[1.0], [0.0], [0.0]], [0, 0, 1], undirected=True)
    >>> graph
    Graph(nodes=3, edges=4, features=1, classes=2)
    >>> print(graph.propagate(2).ravel().round(4))
    [0.4167 0.3402 0.1667]
    """

    def __init__(
        self,
        edge_index: Any,
        features: Any,
        labels: Any = None,
        *,
        class_names: Sequence[str] | np.ndarray | None = None,
        undirected: bool = False,
    ) -> None:
        self.features = _checked_features(features)
        nodes = self.features.shape[0]
        self.adjacency = _checked_adjacency(edge_index, nodes, undirected)
        self.labels = None if labels is None else _checked_labels(labels, nodes)
        self.class_names = None if class_names is None else _checked_names(class_names)
        if self.class_names is not None and self.labels is not None and len(self.class_names) <= self.labels.max():
            raise GraphError(
                f"there are {len(self.class_names)} class names but label {self.labels.max()} occurs: "
                "give one name for each label from 0 on"
            )
        self._cache: dict[Any, Any] = {}

    @classmethod
    def _trusted(
        cls,
        adjacency: sp.csr_array,
        features: Features,
        labels: np.ndarray | None,
        class_names: tuple[str, ...] | None = None,
    ) -> Graph:
        """Graph from parts that are already valid (cut from a valid graph, or made by this package)."""
        graph = cls.__new__(cls)
        graph.adjacency, graph.features, graph.labels = adjacency, features, labels
        graph.class_names, graph._cache = class_names, {}
        return graph

    @classmethod
    def edgeless(cls, features: Features) -> Graph:
        """Rows without edges: propagation leaves them as they are (S = I)."""
        nodes = features.shape[0]
        return cls._trusted(sp.csr_array((nodes, nodes), dtype=bool), features, None)

    @classmethod
    def from_pyg(cls, data: Data, *, undirected: bool = False) -> Graph:
        """Graph from a PyG ``Data`` with ``x`` and optionally ``edge_index`` and ``y``."""
        features, edges, labels = (getattr(data, name, None) for name in ("x", "edge_index", "y"))
        if features is None:
            raise GraphError("the PyG data has no node features: set data.x")
        edges = edges if edges is not None else np.zeros((2, 0), dtype=np.int64)
        return cls(edges, features, labels, undirected=undirected)

    def to_pyg(self) -> Data:
        """The same graph as a PyG ``Data`` with dense features."""
        from torch_geometric.data import Data

        coo = self.adjacency.tocoo()
        edge_index = torch.from_numpy(np.stack([coo.col, coo.row]).astype(np.int64))
        dense = to_dense(self.features)
        labels = None if self.labels is None else torch.from_numpy(self.labels)
        return Data(x=torch.from_numpy(np.ascontiguousarray(dense)), edge_index=edge_index, y=labels)

    @property
    def num_nodes(self) -> int:
        return int(self.features.shape[0])

    @property
    def num_edges(self) -> int:
        """Directed edges, self-loops not counted."""
        return int(self.adjacency.nnz)

    @property
    def num_features(self) -> int:
        return int(self.features.shape[1])

    @property
    def nbytes(self) -> int:
        """Bytes of features and edges."""
        return sum(array.nbytes for array in self._arrays())

    def _arrays(self) -> list[np.ndarray]:
        """All that features and edges consist of."""
        features, edges = self.features, self.adjacency
        parts = [features] if isinstance(features, np.ndarray) else [features.data, features.indices, features.indptr]
        return [*parts, edges.indices, edges.indptr]

    def __repr__(self) -> str:
        classes = "hidden" if self.labels is None else len(np.unique(self.labels[self.labels >= 0]))
        return f"Graph(nodes={self.num_nodes}, edges={self.num_edges}, features={self.num_features}, classes={classes})"

    def fingerprint(self) -> str:
        """SHA-256 of edges, features, labels and class names: two graphs share it exactly if they are equal."""
        digest = hashlib.sha256(repr((self.num_nodes, self.num_features, self.class_names)).encode())
        for part in [*self._arrays(), *([] if self.labels is None else [self.labels])]:
            digest.update(f"{part.dtype}{part.shape}".encode())
            digest.update(np.ascontiguousarray(part).data)
        return digest.hexdigest()

    def subgraph(self, nodes: np.ndarray) -> Graph:
        """Induced subgraph; node i of the result is ``nodes[i]`` of this graph."""
        labels = None if self.labels is None else self.labels[nodes]
        return Graph._trusted(self.adjacency[nodes][:, nodes], self.features[nodes], labels, self.class_names)

    def with_labels(self, labels: np.ndarray | None) -> Graph:
        """The same nodes and edges with other labels (``None`` hides them); computed results are shared."""
        graph = Graph._trusted(self.adjacency, self.features, labels, self.class_names)
        graph._cache = self._cache
        return graph

    def operator(self) -> sp.csr_array:
        """S = D^-1/2 (A + I) D^-1/2 with in-degrees D that count the self-loop."""
        return self.cached("operator", self._operator)

    def _operator(self) -> sp.csr_array:
        nodes = self.num_nodes
        loops = sp.csr_array(sp.eye_array(nodes, dtype=np.float32, format="csr"))
        with_loops = sp.csr_array(self.adjacency.astype(np.float32) + loops)
        scale = (np.diff(with_loops.indptr).astype(np.float64) ** -0.5).astype(np.float32)
        with_loops.data = np.repeat(scale, np.diff(with_loops.indptr)) * scale[with_loops.indices]
        return with_loops

    def propagate(self, hops: int) -> Features:
        """S^hops X, computed once. Sparse features stay sparse while that is the faster form."""
        if hops == 0 or self.num_edges == 0:
            return self.features

        def compute() -> Features:
            # fewer hops are not kept: on a large graph each is as large as the features
            propagated = self.features
            for _ in range(hops):
                propagated = times(self.operator(), propagated)
            return propagated

        return self.cached(("propagated", hops), compute)

    def cached(self, key: Any, compute: Callable[[], Any]) -> Any:
        """Result of ``compute()``, remembered for as long as the graph lives."""
        if key not in self._cache:
            self._cache[key] = compute()
        return self._cache[key]


def as_numpy(value: Any) -> np.ndarray:
    """Array of numbers from a tensor, an array or nested lists."""
    try:
        if isinstance(value, torch.Tensor):
            if value.is_nested or value.layout != torch.strided:
                raise ValueError
            value = value.detach().cpu()
            in_numpy = value.dtype in (torch.float16, torch.float32, torch.float64)  # which has no bfloat16
            value = value.float() if value.is_floating_point() and not in_numpy else value
            value = value.resolve_conj().resolve_neg().numpy()
        array = np.asarray(value)
        low, high = np.lib.array_utils.byte_bounds(array)
        # one number can pose as an array of any size: such a view is refused before anything goes through it
        return array if high - low >= array.nbytes else array.copy()
    except MemoryError:
        raise GraphError("features, edges and labels must fit in memory") from None
    except Exception:  # whatever an object of another kind raises when it is taken for an array
        raise GraphError("features, edges and labels must be rectangular arrays of numbers") from None


def _sparse_table(features: Any) -> sp.csr_array:
    """CSR features from a sparse matrix or tensor, none of whose indices leads outside."""
    if features.ndim != 2:
        raise GraphError(f"features must be a table of nodes × features, not {features.ndim}-dimensional")
    try:
        return checked_csr(_scipy_from(features) if isinstance(features, torch.Tensor) else features)
    except MemoryError:
        raise GraphError(f"features of shape {tuple(features.shape)} do not fit in memory") from None
    except (ValueError, TypeError, AttributeError, IndexError, RuntimeError) as error:
        raise GraphError(f"features are a sparse matrix that cannot be read: {error}") from None


def _scipy_from(tensor: torch.Tensor) -> sp.sparray:
    """The same parts, read by scipy, which checks them; torch follows indices wherever they lead."""
    parts: tuple[torch.Tensor, ...]
    if tensor.layout == torch.sparse_coo:
        kind, parts = sp.coo_array, (tensor._values(), tensor._indices())
    elif tensor.layout == torch.sparse_csr:
        kind, parts = sp.csr_array, (tensor.values(), tensor.col_indices(), tensor.crow_indices())
    elif tensor.layout == torch.sparse_csc:
        kind, parts = sp.csc_array, (tensor.values(), tensor.row_indices(), tensor.ccol_indices())
    else:
        raise ValueError(f"convert its layout {tensor.layout} to COO or CSR")
    return kind(tuple(as_numpy(part) for part in parts), shape=tuple(tensor.shape))


def _checked_features(features: Any) -> Features:
    is_sparse = features.layout != torch.strided if isinstance(features, torch.Tensor) else sp.issparse(features)
    matrix: Any = _sparse_table(features) if is_sparse else as_numpy(features)
    if matrix.dtype.kind not in "fiub":
        raise GraphError(f"features must be numbers, not {matrix.dtype}")
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            if sp.issparse(matrix):
                matrix = matrix.astype(np.float32)
                matrix.sum_duplicates()
                matrix = int32_indices(matrix)
            else:
                matrix = np.array(matrix, dtype=np.float32, order="C")  # a copy: the caller may change theirs
    except MemoryError:
        raise GraphError(f"features of shape {tuple(matrix.shape)} do not fit in memory") from None
    values: np.ndarray = matrix.data if sp.issparse(matrix) else matrix
    if matrix.ndim != 2:
        raise GraphError(f"features must be a table of nodes × features, not {matrix.ndim}-dimensional")
    if 0 in matrix.shape:
        raise GraphError(f"the graph is empty: its features have shape {tuple(matrix.shape)}")
    if not np.isfinite(values).all():
        bad = int(values.size - np.isfinite(values).sum())
        raise GraphError(f"features contain {bad} NaN or infinite values: replace them before loading")
    return matrix


def _checked_adjacency(edge_index: Any, nodes: int, undirected: bool) -> sp.csr_array:
    edges = as_numpy(edge_index)
    if edges.size == 0:
        edges = np.zeros((2, 0), dtype=np.int64)
    if edges.ndim != 2 or edges.shape[0] != 2:
        raise GraphError(f"edges must have shape 2 × E (sources, targets), not {tuple(edges.shape)}")
    if edges.dtype.kind not in "iu":
        raise GraphError(f"edges must be whole numbers, not {edges.dtype}")
    if edges.size and (edges.min() < 0 or edges.max() >= nodes):
        raise GraphError(
            f"edges name node {edges.max() if edges.max() >= nodes else edges.min()}, but nodes are 0 to {nodes - 1}"
        )
    source, target = edges
    if undirected:
        source, target = np.concatenate([source, target]), np.concatenate([target, source])
    proper = source != target
    index = np.int32 if nodes < 2**31 else np.int64
    source, target = source[proper].astype(index), target[proper].astype(index)
    adjacency = sp.csr_array((np.ones(len(source), dtype=bool), (target, source)), shape=(nodes, nodes))
    adjacency.sum_duplicates()
    return adjacency


def _checked_labels(labels: Any, nodes: int) -> np.ndarray:
    values = as_numpy(labels)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.shape != (nodes,):
        raise GraphError(
            f"there must be one label for each of the {nodes} nodes, but labels have shape {tuple(values.shape)}"
        )
    if values.dtype.kind not in "iu":
        raise GraphError(f"labels must be whole numbers, not {values.dtype}")
    if values.min() < -1:
        raise GraphError(f"labels must not be negative, except -1 for unknown ones, but {int(values.min())} occurs")
    if values.max() > np.iinfo(np.int64).max:
        raise GraphError(f"labels must fit into 64 bits with a sign, but {int(values.max())} occurs")
    return values.astype(np.int64)


def _checked_names(names: Any) -> tuple[str, ...]:
    try:
        listed = names.tolist() if isinstance(names, np.ndarray) else names
    except (SystemError, ValueError):  # numpy holds code points that Python does not know
        raise GraphError("class_names hold characters that do not exist: give them as text") from None
    if not isinstance(listed, Sequence) or isinstance(listed, str | bytes):
        raise GraphError(f"class_names must be a list of names, not {shown(names)}")
    if odd := [name for name in listed if not isinstance(name, str | bytes | int | np.integer)]:
        raise GraphError(f"class_names must be text, but {shown(odd[0])} is among them")
    return tuple(name.decode(errors="replace") if isinstance(name, bytes) else str(name) for name in listed)
