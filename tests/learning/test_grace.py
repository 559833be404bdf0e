import numpy as np
import torch

from delome.learning.adam import ResumableAdam
from delome.learning.grace import Encoder, contrast, pretrained
from delome.progress import Tracker
from delome.randomness import generator


def test_the_loss_is_that_of_the_paper():
    rng = np.random.default_rng(0)
    u, v = rng.normal(size=(4, 3)), rng.normal(size=(4, 3))

    def similarity(a, b):
        return np.exp(a @ b / np.linalg.norm(a) / np.linalg.norm(b) / 0.5)

    total = 0.0
    for first, second in ((u, v), (v, u)):
        for i in range(4):
            among = sum(similarity(first[i], each) for each in second)
            among += sum(similarity(first[i], first[j]) for j in range(4) if j != i)
            total -= np.log(similarity(first[i], second[i]) / among)
    found = contrast(torch.from_numpy(u), torch.from_numpy(v))
    np.testing.assert_allclose(float(found), total / 8, rtol=1e-12)


def test_training_without_labels_tells_nodes_apart_and_repeats_to_the_bit(toy_stream):
    graph = toy_stream[0].graph.hidden()
    start = Encoder.drawn(16, 8, generator(0, "test"), torch.device("cpu"))
    before = start.first.clone()
    first, second = (pretrained(graph, start, 10, 3, Tracker()) for _ in range(2))
    assert torch.equal(first.first, second.first) and torch.equal(first.second, second.second)
    assert torch.equal(start.first, before) and not torch.equal(first.first, before)
    assert not torch.equal(first.first, pretrained(graph, start, 10, 4, Tracker()).first)
    rows = torch.from_numpy(graph.propagate(2))
    noise = 0.1 * torch.randn(rows.shape, generator=torch.Generator().manual_seed(0))
    losses = []
    for encoder in (start, pretrained(graph, start, 100, 3, Tracker())):
        views = [encoder.second_layer(each @ encoder.first) for each in (rows, rows + noise)]
        losses.append(float(contrast(*views)))
    assert losses[1] < losses[0]


def test_an_interrupted_descent_goes_on_to_the_same_end():
    def descent(steps, adam):
        for _ in range(steps):
            adam.step((adam.named["x"] - 3).square().sum())

    whole = ResumableAdam({"x": torch.zeros(2)}, 0.1, 0.01)
    descent(7, whole)
    first = ResumableAdam({"x": torch.zeros(2)}, 0.1, 0.01)
    descent(3, first)
    second = ResumableAdam({"x": torch.ones(2)}, 0.1, 0.01)
    second.load(first.save())
    descent(4, second)
    assert torch.equal(whole.named["x"], second.named["x"])
