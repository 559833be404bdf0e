"""Graph: edges as CSR, dense or sparse features, labels; valid by construction."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
import torch

from delome.errors import GraphError
from delome.graph.shared import shared_features
from delome.graph.sparse import Features, times, to_dense
from delome.graph.validation import (
    checked_adjacency,
    checked_attributes,
    checked_features,
    checked_labels,
    checked_masks,
    checked_names,
    checked_weights,
    usable_attributes,
)

if TYPE_CHECKING:
    from torch_geometric.data import Data

MASKS = ("train", "val", "test")
SCALE = "scale"
ATTRIBUTE = "node_"
"""How the names of node attributes begin in files and in PyG data."""
SHARED_FROM = 1 << 20
"""Bytes of a graph from which propagating it takes longer than reading the result."""


class Graph:
    """A graph with node features and, unless hidden, class labels.

    Every edge is taken in both directions; ``undirected=False`` keeps the direction it is given in.
    ``adjacency[v, u]`` is set when there is an edge u → v, so row v lists the nodes whose messages v receives.
    Self-loops and repeated edges are removed on entry; propagation adds one self-loop to every node.

    With ``edge_weight`` (finite, not negative) the entries of ``adjacency`` are weights instead of truth values: those
    of repeated edges add up, an edge of weight 0 is no edge, and of two directions the larger weight counts for both.

    Labels are whole numbers from 0 on, and -1 says that the label of a node is unknown: the node has its place in
    propagation, but belongs to no class. They may also be text (unknown: None or empty); ``labels`` then holds the
    positions in ``class_names``, and `user_labels` the text. Masks say which nodes to train, validate and test on.

    ``node_attributes`` are numbers or texts by name, one for each node, such as ``node_year``: streams may be cut by
    them, and no learner sees them.

    ``shared`` is a folder, if any, through which processes share what was propagated.

    >>> graph = Graph([[0, 1], [1, 2]], [[1.0], [0.0], [0.0]], [0, 0, 1])
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
        edge_weight: Any = None,
        class_names: Sequence[str] | np.ndarray | None = None,
        train_mask: Any = None,
        val_mask: Any = None,
        test_mask: Any = None,
        undirected: bool = True,
        node_attributes: Mapping[str, Any] | None = None,
    ) -> None:
        self.features = checked_features(features)
        nodes = self.features.shape[0]
        weights = None if edge_weight is None else checked_weights(edge_weight)
        self.adjacency = checked_adjacency(edge_index, weights, nodes, undirected)
        self.undirected = undirected
        self.class_names = None if class_names is None else checked_names(class_names)
        self.labels: np.ndarray | None = None
        self.labels_are_text = False
        if labels is not None:
            self.labels, as_text = checked_labels(labels, nodes, self.class_names)
            self.labels_are_text = as_text is not None
            self.class_names = as_text or self.class_names
        masks = dict(zip(MASKS, (train_mask, val_mask, test_mask), strict=True))
        self.masks = checked_masks({name: mask for name, mask in masks.items() if mask is not None}, nodes)
        self.attributes = checked_attributes(node_attributes or {}, nodes)
        self.shared: Path | None = None
        self._cache: dict[Any, Any] = {}

    @classmethod
    def _trusted(
        cls,
        adjacency: sp.csr_array,
        features: Features,
        labels: np.ndarray | None,
        class_names: tuple[str, ...] | None = None,
        *,
        undirected: bool = False,
        labels_are_text: bool = False,
        masks: Mapping[str, np.ndarray] | None = None,
        attributes: Mapping[str, np.ndarray] | None = None,
    ) -> Graph:
        """Graph from parts that are already valid (cut from a valid graph, or made by this package)."""
        graph = cls.__new__(cls)
        graph.adjacency, graph.features, graph.labels = adjacency, features, labels
        graph.class_names, graph.labels_are_text = class_names, labels_are_text
        graph.undirected, graph.masks, graph._cache = undirected, dict(masks or {}), {}
        graph.attributes = dict(attributes or {})
        graph.shared = None
        return graph

    def _like(self, **changes: Any) -> Graph:
        """The same graph with other parts, which are valid."""
        parts = {
            "adjacency": self.adjacency,
            "features": self.features,
            "labels": self.labels,
            "class_names": self.class_names,
            "undirected": self.undirected,
            "labels_are_text": self.labels_are_text,
            "masks": self.masks,
            "attributes": self.attributes,
        }
        graph = Graph._trusted(**(parts | changes))
        graph.shared = self.shared
        return graph

    @classmethod
    def edgeless(cls, features: Features) -> Graph:
        """Rows without edges: propagation leaves them as they are (S = I)."""
        nodes = features.shape[0]
        return cls._trusted(sp.csr_array((nodes, nodes), dtype=bool), features, None, undirected=True)

    @classmethod
    def from_pyg(cls, data: Data, *, undirected: bool = True) -> Graph:
        """Graph from a PyG ``Data`` with ``x`` and optionally ``edge_index``, ``edge_weight`` (or ``edge_attr`` of one
        column), ``y``, ``class_names``, masks and attributes of nodes named ``node_…``."""
        features, edges, labels, names = (getattr(data, name, None) for name in ("x", "edge_index", "y", "class_names"))
        if features is None:
            raise GraphError("the PyG data has no node features: set data.x")
        return cls(
            edges if edges is not None else np.zeros((2, 0), dtype=np.int64),
            features,
            labels,
            edge_weight=_pyg_weights(data),
            class_names=names,
            undirected=undirected,
            node_attributes=_pyg_attributes(data, features),
            **{f"{name}_mask": getattr(data, f"{name}_mask", None) for name in MASKS},
        )

    def to_pyg(self) -> Data:
        """The same graph as a PyG ``Data`` with dense features."""
        from torch_geometric.data import Data

        coo = self.adjacency.tocoo()
        dense = np.ascontiguousarray(to_dense(self.features))
        data = Data(
            x=torch.from_numpy(dense),
            edge_index=torch.from_numpy(np.stack([coo.col, coo.row]).astype(np.int64)),
            y=None if self.labels is None else torch.from_numpy(self.labels),
            **{f"{name}_mask": torch.from_numpy(mask) for name, mask in self.masks.items()},
            **{
                name: values.tolist() if values.dtype.kind == "U" else torch.from_numpy(values)
                for name, values in self.attributes.items()
            },
        )
        if self.weighted:
            data.edge_weight = torch.from_numpy(coo.data)
        if self.class_names is not None:
            data.class_names = list(self.class_names)
        return data

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
    def weighted(self) -> bool:
        """Whether edges have weights."""
        return bool(self.adjacency.dtype != bool)

    @property
    def nbytes(self) -> int:
        """Bytes of features and edges."""
        return sum(array.nbytes for array in self._arrays())

    def _arrays(self) -> list[np.ndarray]:
        """All that features and edges consist of."""
        features, edges = self.features, self.adjacency
        parts = [features] if isinstance(features, np.ndarray) else [features.data, features.indices, features.indptr]
        return [*parts, edges.indices, edges.indptr, *([edges.data] if self.weighted else [])]

    @property
    def user_labels(self) -> np.ndarray | None:
        """The label of each node as it was given: a whole number, or text."""
        if self.labels is None or not self.labels_are_text:
            return self.labels
        text: np.ndarray = np.array([*(self.class_names or ()), ""])[self.labels]
        return text

    def user_label(self, label: int) -> int | str:
        """What one of the ``labels`` was given as."""
        return self.class_names[label] if self.labels_are_text and self.class_names is not None else label

    def __repr__(self) -> str:
        classes = "hidden" if self.labels is None else len(np.unique(self.labels[self.labels >= 0]))
        return f"Graph(nodes={self.num_nodes}, edges={self.num_edges}, features={self.num_features}, classes={classes})"

    def fingerprint(self) -> str:
        """SHA-256 of edges, features, labels, class names and masks: two graphs share it exactly if they are equal.

        Attributes of nodes do not count: a stream that is cut by one says which nodes come when.
        """
        digest = hashlib.sha256(repr((self.content_fingerprint(), self.class_names, self.labels_are_text)).encode())
        named = {"labels": self.labels} | {name: self.masks.get(name) for name in MASKS}
        _update(digest, [array for array in named.values() if array is not None])
        digest.update(repr([name for name, array in named.items() if array is not None]).encode())
        return digest.hexdigest()

    def content_fingerprint(self) -> str:
        """SHA-256 of edges and features alone."""
        digest = hashlib.sha256(repr((self.num_nodes, self.num_features)).encode())
        _update(digest, self._arrays())
        return digest.hexdigest()

    def subgraph(self, nodes: np.ndarray) -> Graph:
        """Induced subgraph; node i of the result is ``nodes[i]`` of this graph."""
        adjacency = self.adjacency[nodes][:, nodes]
        adjacency.sort_indices()  # in whichever graph it is, a node has its neighbours in the order of their numbers
        return self._like(
            adjacency=adjacency,
            features=self.features[nodes],
            labels=None if self.labels is None else self.labels[nodes],
            masks={name: mask[nodes] for name, mask in self.masks.items()},
            attributes={name: values[nodes] for name, values in self.attributes.items()},
        )

    def with_labels(self, labels: np.ndarray | None) -> Graph:
        """The same nodes and edges with other labels (``None`` hides them); computed results are shared."""
        graph = self._like(labels=labels)
        graph._cache = self._cache
        return graph

    def with_features(self, features: Features) -> Graph:
        """The same nodes, edges and labels with other features."""
        graph = self._like(features=features)
        graph._cache = {key: self._cache[key] for key in ("operator", SCALE) if key in self._cache}
        return graph

    def hidden(self) -> Graph:
        """The same without labels, masks and attributes: what a learner sees of a task; computed results are shared."""
        graph = self._like(labels=None, masks={}, attributes={})
        graph._cache = self._cache
        return graph

    def unweighted(self) -> Graph:
        """The same edges without their weights."""
        return self._like(adjacency=self.adjacency.astype(bool))

    def refuse_weights(self, what: str) -> None:
        """An error if edges have weights, for the sake of something that could not use them."""
        if self.weighted:
            raise GraphError(
                f"{what} cannot use edge weights: choose another, or drop them with graph.unweighted() "
                "or file:PATH,weights=false"
            )

    def operator(self) -> sp.csr_array:
        """S = D^-1/2 (A + I) D^-1/2 with in-degrees D that count the self-loop; weighted in-degrees if A is."""
        return self.cached("operator", self._operator)

    def adjacency_with_loops(self) -> sp.csr_array:
        """A + I."""
        loops = sp.csr_array(sp.eye_array(self.num_nodes, dtype=np.float32, format="csr"))
        return sp.csr_array(self.adjacency.astype(np.float32) + loops)

    def scale(self) -> np.ndarray:
        """Diagonal of D^-1/2."""

        def compute() -> np.ndarray:
            if self.weighted:
                degrees = self.adjacency_with_loops() @ np.ones(self.num_nodes)
            else:
                degrees = 1.0 + np.diff(self.adjacency.indptr)
            return np.asarray(degrees**-0.5, dtype=np.float32)

        scale: np.ndarray = self.cached(SCALE, compute)
        return scale

    def _operator(self) -> sp.csr_array:
        with_loops, scale = self.adjacency_with_loops(), self.scale()
        with_loops.data *= np.repeat(scale, np.diff(with_loops.indptr)) * scale[with_loops.indices]
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

        def shared() -> Features:
            if self.shared is None or self.nbytes < SHARED_FROM:
                return compute()
            return shared_features(self.shared, f"{self.content_fingerprint()}-{hops}", compute)

        return self.cached(("propagated", hops), shared)

    def cached(self, key: Any, compute: Callable[[], Any]) -> Any:
        """Result of ``compute()``, remembered for as long as the graph lives."""
        if key not in self._cache:
            self._cache[key] = compute()
        return self._cache[key]


def _update(digest: Any, arrays: list[np.ndarray]) -> None:
    for array in arrays:
        digest.update(f"{array.dtype}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)


def _pyg_weights(data: Data) -> Any:
    """Weights of the edges of PyG data; attributes that no network here could use are refused."""
    weights, attributes = (getattr(data, name, None) for name in ("edge_weight", "edge_attr"))
    if attributes is None:
        return weights
    if weights is not None:
        raise GraphError("the PyG data has edge_weight and edge_attr: delete the one that is not the weight of an edge")
    if attributes.ndim == 2 and attributes.shape[1] != 1:
        raise GraphError(
            f"the PyG data has {attributes.shape[1]} attributes for each edge, which no network here uses: "
            "delete data.edge_attr, or set data.edge_weight in its place"
        )
    return attributes


def _pyg_attributes(data: Data, features: Any) -> dict[str, np.ndarray]:
    if not hasattr(data, "keys") or not getattr(features, "shape", ()):
        return {}  # no PyG data, or no features, which is said elsewhere
    named = {str(name): data[name] for name in data.keys() if str(name).startswith(ATTRIBUTE)}  # noqa: SIM118  # no dict
    return usable_attributes(
        {name: value for name, value in named.items() if hasattr(value, "shape")}, features.shape[0]
    )
