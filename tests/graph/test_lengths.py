import pytest
import torch

from delome.graph.lengths import lengths_of


def test_lengths_are_euclidean_and_keep_their_place():
    vectors = torch.tensor([[[3.0, 4.0], [0.0, 0.0]], [[1.0, 0.0], [5.0, 12.0]]])
    assert lengths_of(vectors).tolist() == [[[5.0], [0.0]], [[1.0], [13.0]]]


@pytest.mark.parametrize("large", [1e30, 3e38, torch.inf, -torch.inf])
def test_a_length_that_overflows_is_no_number(large):
    lengths = lengths_of(torch.tensor([[large, 1.0], [3.0, 4.0]]))
    assert lengths[0].isnan() and lengths[1] == 5
    # a row divided by an infinite length would pass for a row of zeros
    assert not (torch.tensor([[large, 1.0]]) / lengths[:1]).isfinite().any()


def test_a_gradient_passes_through():
    vectors = torch.tensor([[3.0, 4.0]], requires_grad=True)
    lengths_of(vectors).sum().backward()
    torch.testing.assert_close(vectors.grad, torch.tensor([[0.6, 0.8]]))
