"""A graph: edges, features and labels, valid by construction."""

from delome.graph.graph import Graph
from delome.graph.union import disjoint_union
from delome.graph.validation import as_numpy

__all__ = ["Graph", "as_numpy", "disjoint_union"]
