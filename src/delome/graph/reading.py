"""What a learner reads of a graph's features: the features as they are, or fewer random columns of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Annotated

from delome.graph.graph import Graph
from delome.graph.sparse import Features
from delome.parameters import Component, Param
from delome.randomness import generator, normal
from delome.registry import Registry

READINGS: Registry[type[Reading]] = Registry("reading", "readings", lambda: Reading)


class Reading(Component, ABC):
    """Turns a graph into the one that a learner reads in its place, the same way for every graph."""

    @abstractmethod
    def __call__(self, graph: Graph, seed: int) -> Graph:
        """The graph to read; a row of its features depends on that row of the graph's alone."""

    def width(self, features: int) -> int:
        """Features of what is read of graphs that have so many."""
        return features


@READINGS.register("projected")
class Projected(Reading):
    """``X R`` with a Gaussian matrix R of fewer columns, drawn from the seed and never stored: E[R Rᵀ] = I.

    Lengths of rows and angles between them are kept up to an error of about 1/√columns (Johnson and Lindenstrauss,
    1984). Propagation is linear, S²(X R) = (S² X) R: projecting first is the same as projecting propagated rows.

    >>> graph = Graph([[0, 1], [1, 2]], [[1.0, 0.0, 2.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    >>> Projected(columns=2)(graph, seed=0).num_features, Projected()(graph, seed=0) is graph
    (2, True)
    """

    columns: Annotated[
        int | None, Param("random columns that features are projected to; none = features as they are", at_least=1)
    ] = None

    def width(self, features: int) -> int:
        return features if self.columns is None else min(features, self.columns)

    def __call__(self, graph: Graph, seed: int) -> Graph:
        columns = self.width(graph.num_features)
        if columns == graph.num_features:
            return graph

        def project() -> Graph:
            return graph.with_features(times_random(graph.features, columns, seed))

        projected: Graph = graph.cached(("projected", columns, seed), project)
        return projected


def times_random(features: Features, columns: int, seed: int) -> Features:
    """The product with a matrix of independent normal entries of variance 1 / columns."""
    matrix = normal(generator(seed, "random columns"), (features.shape[1], columns), columns**-0.5).numpy()
    product: Features = features @ matrix
    return product
