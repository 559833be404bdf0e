"""GCN: two graph convolutions with symmetric normalisation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import scipy.sparse as sp
from torch import Tensor

from delome.backbones.backbone import Backbone, Inputs
from delome.backbones.rows import Rows, SparseMatrix
from delome.graph import Graph


@dataclass(frozen=True)
class Neighbourhood:
    """Rows of ``S`` to classify, and the once-propagated features ``S X`` of the nodes they reach."""

    reached: Rows
    operator: SparseMatrix

    def __len__(self) -> int:
        return int(self.operator.matrix.shape[0])

    def select(self, index: np.ndarray) -> Neighbourhood:
        """Only the chosen rows, and only the nodes they reach."""
        chosen = self.operator.matrix[index]
        columns, positions = np.unique(chosen.indices, return_inverse=True)
        narrow = sp.csr_array(
            (chosen.data, positions.astype(chosen.indices.dtype), chosen.indptr), shape=(len(index), len(columns))
        )
        return Neighbourhood(self.reached.select(columns), SparseMatrix(narrow, self.operator.device))


class GCN(Backbone):
    """``f(X) = S relu(S X W1) W2`` (Kipf and Welling, 2017); ``S X`` has no parameters and is computed once."""

    def prepare(self, graph: Graph) -> Neighbourhood:
        def compute() -> Neighbourhood:
            return Neighbourhood(Rows.of(graph.propagate(1), self.device), SparseMatrix(graph.operator(), self.device))

        neighbourhood: Neighbourhood = graph.cached(("gcn", self.device), compute)
        return neighbourhood

    def join(self, parts: Sequence[Inputs]) -> Neighbourhood:
        pieces = cast(Sequence[Neighbourhood], parts)
        union = sp.csr_array(sp.block_diag([piece.operator.matrix for piece in pieces], format="csr"))
        return Neighbourhood(Rows.join([piece.reached for piece in pieces]), SparseMatrix(union, self.device))

    def forward(self, inputs: Inputs) -> Tensor:
        neighbourhood = cast(Neighbourhood, inputs)
        activations = neighbourhood.reached.times(self.first).relu()
        return neighbourhood.operator.times(activations @ self.second)
