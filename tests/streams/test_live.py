from __future__ import annotations

import numpy as np
import pytest
import torch
from torch_geometric.data import Data, HeteroData

from delome import Graph
from delome.errors import GraphError
from delome.streams.live import as_graph, labelled_nodes


def data_of(**more: object) -> Data:
    return Data(x=torch.ones(4, 2), edge_index=torch.tensor([[0, 1], [1, 2]]), y=torch.tensor([3, -1, 0, 3]), **more)


def test_labelled_nodes_are_those_with_a_label_inside_the_mask() -> None:
    mask = torch.tensor([True, True, False, True])
    assert labelled_nodes(data_of())[1].tolist() == [0, 2, 3]
    assert labelled_nodes(data_of(train_mask=mask))[1].tolist() == [0, 3]
    assert labelled_nodes(data_of(train_mask=mask.numpy()))[1].tolist() == [0, 3]
    assert labelled_nodes(data_of(train_mask=None))[1].tolist() == [0, 2, 3]


def test_a_graph_is_taken_as_it_is() -> None:
    graph = Graph([[0], [1]], np.ones((2, 1)), [1, -1])
    assert as_graph(graph) is graph
    assert labelled_nodes(graph)[0] is graph


@pytest.mark.parametrize(
    ("mask", "found"),
    [
        (torch.ones(3, dtype=torch.bool), "type bool and shape (3,)"),
        (torch.ones(4, 1, dtype=torch.bool), "type bool and shape (4, 1); choose one of the splits, mask[:, k]"),
        (torch.tensor([0, 2]), "type int64 and shape (2,)"),
        (torch.ones(4), "type float32 and shape (4,)"),
    ],
)
def test_a_mask_that_is_none_is_refused(mask: torch.Tensor, found: str) -> None:
    with pytest.raises(GraphError) as error:
        labelled_nodes(data_of(train_mask=mask))
    assert str(error.value) == f"train_mask must hold true or false for each of the 4 nodes, but it has {found}"


def test_other_things_are_refused() -> None:
    for other, name in ((HeteroData(), "HeteroData"), ("digits", "str"), (np.ones(3), "ndarray")):
        with pytest.raises(GraphError) as error:
            as_graph(other)
        assert str(error.value) == (
            f"a {name} cannot be learned from: give a task of a TaskStream, a delome.Graph or a PyG Data"
        )
