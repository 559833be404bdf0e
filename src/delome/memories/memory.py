"""A memory of one task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from delome.graph import Graph
from delome.graph.sparse import Features, int32_indices, stack


@dataclass(frozen=True)
class Memory:
    """A small graph that stands for a finished task.

    ``graph`` holds rows without edges (a backbone then reads them as they are) or a sparsified subgraph;
    ``rows`` are the nodes that carry loss, ``labels`` their class columns. Learned rows live in *propagated*
    space: they stand for rows of ``S² X``, not for raw features of a node.

    ``stands_for`` says for each class how many training rows its rows stand for, if not only for themselves.

    A memory never changes, nor do its arrays: what was stored of it once is not stored again.
    """

    task: int
    graph: Graph
    rows: np.ndarray
    labels: np.ndarray
    report: dict[str, list[float]] = field(default_factory=dict)
    stands_for: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.stands_for:
            object.__setattr__(self, "stands_for", counts_of(self.labels))

    @classmethod
    def of_rows(
        cls, task: int, features: Features, labels: np.ndarray, report: dict[str, list[float]] | None = None
    ) -> Memory:
        """Memory of rows without edges, all of them carrying loss."""
        return cls(task, Graph.edgeless(features), np.arange(len(labels)), labels, report or {})

    @cached_property
    def tensors(self) -> dict[str, Tensor]:
        """Everything that is stored of it, under the names it has in a state."""
        arrays = {"rows": self.rows, "labels": self.labels}
        features = self.graph.features
        if sp.issparse(features):
            arrays |= {f"features.{part}": getattr(features, part) for part in ("data", "indices", "indptr")}
        else:
            arrays["features"] = features
        if self.graph.num_edges:
            parts = ("data", "indices", "indptr") if self.graph.weighted else ("indices", "indptr")
            arrays |= {f"edges.{part}": getattr(self.graph.adjacency, part) for part in parts}
        prefix = f"memory.{self.task}."
        return {prefix + name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()}

    def select(self, positions: np.ndarray) -> Memory:
        """The memory of some of its rows; of rows without edges the others are dropped."""
        chosen, labels = self.rows[positions], self.labels[positions]
        stands_for = {column: self.stands_for[column] for column in np.unique(labels).tolist()}
        if self.graph.num_edges:
            return replace(self, rows=chosen, labels=labels, stands_for=stands_for)
        graph = Graph.edgeless(self.graph.features[chosen])
        return replace(self, graph=graph, rows=np.arange(len(labels)), labels=labels, stands_for=stands_for)

    @classmethod
    def join(cls, parts: Sequence[Memory]) -> Memory:
        """Disjoint union of memories, of the task of the first."""
        features = stack([part.graph.features for part in parts])
        graph = Graph.edgeless(features)
        if any(part.graph.num_edges for part in parts):
            union = sp.csr_array(sp.block_diag([part.graph.adjacency for part in parts], format="csr"))
            graph = Graph._trusted(int32_indices(union), features, None)
        offsets = np.cumsum([0, *(part.graph.num_nodes for part in parts[:-1])])
        rows = np.concatenate([part.rows + offset for part, offset in zip(parts, offsets, strict=True)])
        return cls(parts[0].task, graph, rows, np.concatenate([part.labels for part in parts]))


def counts_of(labels: np.ndarray) -> dict[int, int]:
    """How often each label occurs.

    >>> counts_of(np.array([7, 3, 7]))
    {3: 1, 7: 2}
    """
    present, counts = np.unique(labels, return_counts=True)
    return dict(zip(present.tolist(), counts.tolist(), strict=True))
