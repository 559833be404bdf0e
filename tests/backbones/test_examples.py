from dataclasses import replace

import numpy as np
import pytest
import torch

from delome import Graph
from delome.backbones import BACKBONES, SGC
from delome.backbones.examples import Examples, Strata
from delome.backbones.sampling import SampledNodes
from delome.backbones.two_layers import TwoLayers

CPU = torch.device("cpu")


def network_of(name, hidden=16):
    kind = BACKBONES[name]
    assert issubclass(kind, TwoLayers)
    return kind(hidden=hidden).network(5, 3, np.random.default_rng(0), CPU)


def random_graph(seed, nodes=10):
    rng = np.random.default_rng(seed)
    return Graph(rng.integers(nodes, size=(2, 20)), rng.standard_normal((nodes, 5)))


def examples_of(network, graph, nodes, task, fanouts=None):
    """Nodes of a graph, labelled by their numbers."""
    nodes = np.array(nodes)
    prepared = network.prepare(graph).select(nodes)
    inputs = prepared if fanouts is None else SampledNodes.of(network, graph, nodes, fanouts)
    return Examples(inputs, torch.from_numpy(nodes), torch.full((len(nodes),), task))


@pytest.mark.parametrize("fanouts", [None, (50, 50)], ids=["all neighbours", "sampled"])
@pytest.mark.parametrize("name", BACKBONES)
def test_joined_examples_stand_below_each_other(name, fanouts):
    network = network_of(name)
    graphs, chosen = [random_graph(1), random_graph(2, nodes=7)], [[3, 0, 3], [6, 1]]
    parts = [examples_of(network, graphs[task], chosen[task], task, fanouts) for task in (0, 1)]
    joined = Examples.join(network, parts)
    assert len(joined) == len(joined.inputs) == 5
    assert joined.labels.tolist() == [3, 0, 3, 6, 1]
    assert joined.tasks.tolist() == [0, 0, 0, 1, 1]
    rng = np.random.default_rng(0)
    expected = torch.cat([network(part.read(rng).inputs) for part in parts])
    torch.testing.assert_close(network(joined.read(rng).inputs), expected)


@pytest.mark.parametrize("fanouts", [None, (50, 50)], ids=["all neighbours", "sampled"])
def test_rows_labels_and_tasks_are_selected_together(fanouts):
    network = network_of("gcn")
    graph = random_graph(1)
    parts = [examples_of(network, graph, nodes, task, fanouts) for task, nodes in ((4, [0, 1, 2]), (7, [5, 9]))]
    chosen = Examples.join(network, parts).select(np.array([4, 1, 1]))
    assert (chosen.labels.tolist(), chosen.tasks.tolist()) == ([9, 1, 1], [7, 4, 4])
    logits = network(chosen.read(np.random.default_rng(0)).inputs)
    assert torch.equal(logits[1], logits[2])
    alone = examples_of(network, graph, [9], 0, fanouts).read(np.random.default_rng(0))
    if fanouts is None:  # a sampled neighbourhood counts degrees of all nodes that are drawn with it
        torch.testing.assert_close(logits[:1], network(alone.inputs))


def test_examples_that_are_not_sampled_are_read_as_they_are():
    network = network_of("sgc", hidden=4)
    examples = examples_of(network, random_graph(1), [0, 1], 0)
    assert examples.read(np.random.default_rng(0)) is examples


def test_every_reading_of_sampled_examples_draws_anew():
    network = network_of("gcn", hidden=4)
    examples = examples_of(network, random_graph(1), range(10), 0, (1, 1))
    rng = np.random.default_rng(0)
    first, second = (network(examples.read(rng).inputs) for _ in range(2))
    assert not torch.equal(first, second)


def labelled_rows(tasks, labels):
    """Rows whose only feature is their number."""
    count = len(labels)
    inputs = SGC().prepare(Graph.edgeless(np.arange(count, dtype=np.float32)[:, None]), CPU)
    return Examples(inputs, torch.tensor(labels), torch.tensor(tasks))


def numbers_of(examples):
    """The only feature of each row."""
    return examples.inputs.dense().flatten()


TASKS, LABELS = [0] * 60 + [1] * 40, [0] * 57 + [1] * 3 + [2] * 20 + [0] * 20


def test_strata_are_drawn_in_proportion_and_none_is_left_out():
    drawn = Strata(labelled_rows(TASKS, LABELS), 20).draw(np.random.default_rng(0))
    pairs = list(zip(drawn.tasks.tolist(), drawn.labels.tolist(), strict=True))
    assert [pairs.count(pair) for pair in ((0, 0), (0, 1), (1, 2), (1, 0))] == [11, 1, 4, 4]
    numbers = numbers_of(drawn).tolist()
    assert len(set(numbers)) == 20
    assert [(TASKS[int(each)], LABELS[int(each)]) for each in numbers] == pairs
    assert drawn.weights.sum().item() == pytest.approx(100)


def test_weighted_sums_over_drawn_rows_are_right_on_average_and_every_row_is_drawn():
    rows = labelled_rows(TASKS, LABELS)
    strata, rng = Strata(rows, 20), np.random.default_rng(0)
    totals, seen = [], set()
    for _ in range(2000):
        drawn = strata.draw(rng)
        values = numbers_of(drawn)
        totals.append((drawn.weights * values**2).sum().item())
        seen |= set(values.tolist())
    assert np.mean(totals) == pytest.approx(sum(each**2 for each in range(100)), rel=0.01)
    assert seen == set(range(100))


def test_no_more_rows_than_are_asked_for_are_left_as_they_are():
    rows = labelled_rows(TASKS, LABELS)
    assert Strata(rows, 100).draw(np.random.default_rng(0)) is rows
    assert rows.weights is None
    assert len(Strata(rows, 99).draw(np.random.default_rng(0))) < 100
    assert len(Strata(rows, 1).draw(np.random.default_rng(0))) == 4  # one of each


def test_weights_are_selected_with_their_rows():
    rows = labelled_rows(TASKS, LABELS)
    rows = replace(rows, weights=torch.arange(100.0))
    weights = rows.select(np.array([3, 11])).weights
    assert weights is not None and weights.tolist() == [3.0, 11.0]
