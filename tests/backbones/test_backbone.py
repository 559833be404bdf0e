"""What backbones share: growing, what each may offer, and where dropped values are drawn from."""

import numpy as np
import pytest
import torch

from delome import TWP, FineTune, Graph, Replay
from delome.backbones import BACKBONES, SGC, Backbone, Network
from delome.backbones.backbone import offered
from delome.backbones.two_layers import TwoLayers
from delome.errors import ParameterError
from delome.graph.rows import Rows

CPU = torch.device("cpu")


def network_of(name, classes=3, hidden=16, features=5):
    kind = BACKBONES[name]
    assert issubclass(kind, TwoLayers)
    return kind(hidden=hidden).network(features, classes, np.random.default_rng(0), CPU)


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


class Linear(Backbone):
    """Only what every backbone must have: one layer on raw features."""

    hops = 0

    def prepare(self, graph, device):
        return Rows.of(graph.features, device)

    def join(self, parts):
        return Rows.join(parts)

    def network(self, features, classes, rng, device):
        return LinearNetwork(self, device, torch.zeros(features, classes))


class LinearNetwork(Network):
    def __init__(self, backbone, device, weights):
        super().__init__(backbone, device)
        self.weights = torch.nn.Parameter(weights)

    def forward(self, inputs):
        return inputs.times(self.weights)

    def grow(self, classes, rng):
        more = torch.zeros(len(self.weights), classes - self.weights.shape[1])
        self.weights = torch.nn.Parameter(torch.cat([self.weights.detach(), more], dim=1))


def test_what_is_offered_is_given():
    backbone = SGC(hidden=4)
    network = backbone.network(5, 3, np.random.default_rng(0), CPU)
    assert offered(network, "embed", "space=embedding") == network.embed
    assert network.backbone is backbone
    assert offered(backbone, "read_blocks", "fanout") == backbone.read_blocks


@pytest.mark.parametrize("ability", ["embed", "topology", "read_blocks"])
def test_what_is_not_offered_is_refused_in_a_sentence(ability):
    backbone = Linear()
    by = backbone if ability == "read_blocks" else backbone.network(5, 3, np.random.default_rng(0), CPU)
    with pytest.raises(ParameterError) as error:
        offered(by, ability, "somebody")
    assert str(error.value) == (
        f"backbone {__name__}:Linear does not offer '{ability}', which somebody needs: choose another"
    )


def test_a_backbone_needs_no_more_than_what_every_backbone_has(toy_stream):
    learner = Replay(backbone=Linear(), memory="raw", budget=10, epochs=100)
    for task in toy_stream:
        learner.observe(task)
    assert learner.outputs == 6
    assert np.mean(learner.evaluate(toy_stream)) > 90


@pytest.mark.parametrize(
    ("learner", "ability"),
    [
        (FineTune(backbone=Linear(), fanout="2,2"), "read_blocks"),
        (TWP(backbone=Linear()), "topology"),
        (Replay(backbone=Linear(), memory="experience", sampler="mf", space="embedding"), "embed"),
    ],
)
def test_a_method_that_needs_more_refuses_it_and_stays_as_it_was(toy_stream, learner, ability):
    with pytest.raises(ParameterError, match=rf"Linear does not offer '{ability}'"):
        learner.observe(toy_stream[0])
    assert learner.classes == []


def test_values_are_dropped_inside_the_block_only_and_as_its_generator_says():
    network, graph = network_of("gat"), random_graph()
    inputs = network.prepare(graph)
    outside = network(inputs)
    draws = []
    for seed in (0, 0, 1):
        with network.dropout_from(torch.Generator().manual_seed(seed)):
            draws.append(network(inputs))
    assert torch.equal(draws[0], draws[1]) and not torch.equal(draws[0], draws[2])
    assert not torch.equal(draws[0], outside)
    with pytest.raises(KeyError), network.dropout_from(torch.Generator()):
        raise KeyError
    assert torch.equal(network(inputs), outside)
