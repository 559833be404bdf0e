"""What backbones share: growing."""

import numpy as np
import pytest
import torch

from delome import Graph
from delome.backbones import BACKBONES

CPU = torch.device("cpu")


def network_of(name, classes=3, hidden=16, features=5):
    return BACKBONES[name](hidden=hidden).network(features, classes, np.random.default_rng(0), CPU)


def random_graph(nodes=12, features=5):
    rng = np.random.default_rng(1)
    return Graph(rng.integers(nodes, size=(2, 30)), rng.standard_normal((nodes, features)))


@pytest.mark.parametrize("name", ["sgc", "gcn"])
def test_growing_does_not_change_the_logits_of_old_columns(name):
    graph, network = random_graph(), network_of(name)
    with torch.no_grad():
        before = network(network.prepare(graph))
        network.grow(7, np.random.default_rng(1))
        after = network(network.prepare(graph))
    assert after.shape == (12, 7)
    torch.testing.assert_close(after[:, :3], before, atol=1e-6, rtol=1e-6)
    assert (after[:, 3:] != 0).any(dim=0).all()


@pytest.mark.parametrize("name", BACKBONES)
def test_growing_keeps_every_weight_and_the_order_of_parameters(name):
    network = network_of(name)
    before = {key: parameter.detach().clone() for key, parameter in network.named_parameters()}
    network.grow(7, np.random.default_rng(1))
    after = dict(network.named_parameters())
    assert list(after) == list(before)
    for key, parameter in after.items():
        old = before[key]
        grows = key.startswith("second")
        assert parameter.shape == (*old.shape[:-1], 7 if grows else old.shape[-1])
        assert torch.equal(parameter[..., : old.shape[-1]], old)
        assert parameter.is_contiguous() and parameter.is_leaf and parameter.requires_grad


def test_new_columns_are_drawn_like_the_first_ones():
    grown, drawn = network_of("sgc", hidden=256), network_of("sgc", hidden=256)
    grown.grow(67, np.random.default_rng(1))
    new = grown.second[:, 3:]
    assert 0.99 * 256**-0.5 < new.abs().max() <= 256**-0.5
    torch.testing.assert_close(new.var(), torch.tensor(1 / (3 * 256)), rtol=0.05, atol=0)
    drawn.grow(67, np.random.default_rng(2))
    assert not torch.equal(drawn.second, grown.second)


def test_new_columns_of_gat_are_drawn_like_those_of_a_network_that_has_them_from_the_start():
    grown = network_of("gat", classes=3, hidden=256)
    grown.grow(503, np.random.default_rng(1))
    assert grown.second[:, 3:].std().item() == pytest.approx(2 * (256 + 503) ** -0.5, rel=0.02)
    assert grown.second_attention[..., 3:].std().item() == pytest.approx(2 * (2 * 503) ** -0.5, rel=0.1)
