"""Several graphs as one, without edges between them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from delome.errors import GraphError
from delome.graph.graph import Graph
from delome.graph.sparse import stack

DOMAIN = "node_domain"
"""Node attribute that says from which graph of a union a node is."""


def disjoint_union(graphs: Sequence[Graph]) -> Graph:
    """Graphs side by side; the attribute ``node_domain`` of a node is the position of the graph it is from.

    Labels, masks and other attributes are there if every graph has them. Equal labels are the same class.

    >>> first, second = (Graph([[0], [1]], [[1.0], [2.0]], ["a", name]) for name in ("b", "c"))
    >>> union = disjoint_union([first, second])
    >>> union, union.user_labels.tolist(), union.attributes["node_domain"].tolist()
    (Graph(nodes=4, edges=4, features=1, classes=3), ['a', 'b', 'a', 'c'], [0, 0, 1, 1])
    """
    graphs = list(graphs)
    if not graphs:
        raise GraphError("a union needs at least one graph")
    for each in ("num_features", "weighted", "undirected"):
        if len(values := {getattr(graph, each) for graph in graphs}) > 1:
            raise GraphError(f"graphs of a union must agree in {each}, but there are {sorted(values)}")
    adjacency = sp.csr_array(sp.block_diag([graph.adjacency for graph in graphs], format="csr"))
    labels, names, as_text = _labels(graphs)
    masks, attributes = (
        {name: np.concatenate([each[name] for each in parts]) for name in parts[0] if all(name in p for p in parts)}
        for parts in ([graph.masks for graph in graphs], [graph.attributes for graph in graphs])
    )
    return Graph._trusted(
        adjacency.astype(graphs[0].adjacency.dtype),
        stack([graph.features for graph in graphs]),
        labels,
        names,
        undirected=graphs[0].undirected,
        labels_are_text=as_text,
        masks=masks,
        attributes=attributes | {DOMAIN: np.repeat(np.arange(len(graphs)), [graph.num_nodes for graph in graphs])},
    )


def _labels(graphs: Sequence[Graph]) -> tuple[np.ndarray | None, tuple[str, ...] | None, bool]:
    """Labels of all nodes, names of classes, and whether labels are text."""
    found = [graph.user_labels for graph in graphs]
    given = [labels for labels in found if labels is not None]
    names = {graph.class_names for graph in graphs}
    if len(given) < len(found):
        return None, names.pop() if len(names) == 1 else None, False
    if len({graph.labels_are_text for graph in graphs}) > 1:
        raise GraphError("labels of graphs of a union must all be numbers, or all be text")
    labels = np.concatenate(given)
    if graphs[0].labels_are_text:
        texts = tuple(sorted({text for graph in graphs for text in graph.class_names or ()}))
        places = {text: place for place, text in enumerate(texts)} | {"": -1}
        return np.array([places[text] for text in labels.tolist()], dtype=np.int64), texts, True
    if len(names) > 1:
        raise GraphError("graphs of a union name their classes differently: give all of them the same class_names")
    return labels, names.pop(), False
