import numpy as np
import pytest
import torch

from delome.backbones import SGC
from delome.memories import Context
from delome.memories.descent import descend
from delome.progress import Checkpoint, Tracker
from delome.randomness import generator
from delome.streams.columns import LabelColumns


class Notebook:
    """Keeps what was reached after every step."""

    def __init__(self, found=None):
        self.kept, self.earlier = [], found

    def found(self, phase):
        return self.earlier

    def reached(self, phase, done, total, seconds, save):
        self.kept.append(Checkpoint(done, seconds, save()))


def descended(count, checkpoints=None, lr=0.1, updates=1):
    """Draws one target after the other, and takes steps towards each."""
    rows, rng = torch.ones(2, 3, requires_grad=True), generator(0, "descent")
    targets = []

    def draw():
        # 32 bits a number: half of a 64-bit draw is left for the next
        targets.append(torch.from_numpy(rng.integers(100, size=(2, 3), dtype=np.uint32).astype(np.float32)))
        return lambda: (rows - targets[-1]).square().sum()

    network = SGC(hidden=1).network(3, 1, np.random.default_rng(0), torch.device("cpu"))
    context = Context(network, LabelColumns("cil", []), rng, Tracker(checkpoints))
    descend(rows, draw, lr, count, context, updates)
    return rows.detach(), targets


def test_rows_take_the_steps_of_torchs_own_adam():
    reached, targets = descended(4)
    rows = torch.ones(2, 3, requires_grad=True)
    optimizer = torch.optim.Adam([rows], lr=0.1)
    for target in targets:
        optimizer.zero_grad()
        (rows - target).square().sum().backward()
        optimizer.step()
    torch.testing.assert_close(reached, rows.detach())


def test_several_steps_towards_a_target_are_those_of_a_new_adam():
    reached, targets = descended(2, updates=3)
    rows = torch.ones(2, 3, requires_grad=True)
    for target in targets:
        optimizer = torch.optim.Adam([rows], lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            (rows - target).square().sum().backward()
            optimizer.step()
    assert len(targets) == 2
    torch.testing.assert_close(reached, rows.detach())


@pytest.mark.parametrize("updates", [1, 2])
@pytest.mark.parametrize("done", [1, 2, 3, 4])
def test_interrupted_steps_are_resumed_to_the_bit(done, updates):
    notebook = Notebook()
    whole, targets = descended(5, notebook, updates=updates)
    assert [each.done for each in notebook.kept] == [1, 2, 3, 4, 5]
    resumed, later = descended(5, Notebook(notebook.kept[done - 1]), updates=updates)
    assert torch.equal(resumed, whole)
    assert len(later) == 5 - done
    assert all(torch.equal(a, b) for a, b in zip(later, targets[done:], strict=True))


def test_what_is_kept_does_not_change_with_later_steps():
    notebook = Notebook()
    descended(2, notebook)
    first, second = (each.state for each in notebook.kept)
    assert not torch.equal(first.tensors["rows"], second.tensors["rows"])
    assert not torch.equal(first.tensors["exp_avg"], second.tensors["exp_avg"])
    assert first.values["state"] != second.values["state"]
    assert not first.tensors["rows"].requires_grad
