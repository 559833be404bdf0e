"""When memories are built, what is trained on, and what is kept of it."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import pytest
import torch

from delome import Replay, TaskStream
from delome.backbones import Network
from delome.backbones.two_layers import TwoLayerNetwork
from delome.errors import ParameterError
from delome.learning.footprint import Footprint
from delome.learning.replay import ReplayTraining
from delome.learning.training import Schedule
from delome.losses import Balanced, Debiased, Plain, ScoredRows
from delome.memories import Centroids, Context, Memory, MemoryBank, RawRows
from delome.progress import Tracker
from delome.streams.tasks import Observation

SMALL = {"memory": RawRows(budget=3), "epochs": 2, "hidden": 8}


class Watched(Replay):
    """Keeps the trainings of its tasks."""

    def begin(self, *arguments: Any) -> ReplayTraining:
        self.training = super().begin(*arguments)
        return self.training


Kind = TypeVar("Kind", bound=Replay)


def after(learner: Kind, stream: TaskStream, tasks: int) -> Kind:
    for task in stream[:tasks]:
        learner.observe(task)
    return learner


@pytest.mark.parametrize(
    ("setting", "remember", "replayed"),
    [("cil", "after", [0, 1]), ("cil", "before", [0, 1, 2]), ("til", "after", [0, 1]), ("til", "before", [0, 1])],
)
def test_every_step_replays_what_is_remembered_by_then(
    toy_stream: TaskStream, setting: str, remember: str, replayed: list[int]
) -> None:
    training = after(Watched(setting=setting, remember=remember, **SMALL), toy_stream, 3).training
    assert training.memories.examples.tasks.tolist() == np.repeat(replayed, 6).tolist()
    assert training.memories.examples.labels.tolist() == np.repeat(np.arange(2 * len(replayed)), 3).tolist()
    own = 24 + (3 if 2 in replayed else 0)
    assert training.counts.tolist() == [3, 3, 3, 3, own, own]
    # memories of the current task count as stored if they are there
    assert training.stored == (18 if remember == "before" else 12)


@pytest.mark.parametrize("remember", ["after", "before"])
def test_in_the_first_task_nothing_is_replayed(toy_stream: TaskStream, remember: str) -> None:
    learner = after(Watched(remember=remember, **SMALL), toy_stream, 1)
    assert learner.training.memories is None
    assert [memory.task for memory in learner.bank.memories] == [0]


@pytest.mark.parametrize("setting", ["cil", "til"])
def test_in_memory_only_remembered_rows_are_trained_on(toy_stream: TaskStream, setting: str) -> None:
    training = after(Watched(train_on="memory", setting=setting, **SMALL), toy_stream, 2).training
    assert training.memories is None
    assert training.examples.labels.tolist() == np.repeat([0, 1, 2, 3], 3).tolist()
    assert training.examples.tasks.tolist() == np.repeat([0, 1], 6).tolist()
    assert training.counts.tolist() == [3] * 4


def test_the_loss_is_asked_for_current_rows_above_replayed_ones(toy_stream: TaskStream) -> None:
    asked: list[ScoredRows] = []

    class Asking(Plain):
        def __call__(self, rows: ScoredRows) -> torch.Tensor:
            asked.append(rows)
            return super().__call__(rows)

    for setting in ("cil", "til"):
        after(Watched(loss=Asking(), setting=setting, **SMALL), toy_stream, 2)
        rows = asked[-1]
        assert (rows.replayed, rows.stored, rows.one_group) == (6, 6, setting == "cil")
        assert rows.logits.shape == (48 + 6, 4) and rows.counts.tolist() == [3, 3, 24, 24]
        assert rows.tasks.tolist() == [1] * 48 + [0] * 6
        assert rows.logits[-1].isinf().tolist() == ([False] * 4 if setting == "cil" else [False, False, True, True])


@pytest.mark.parametrize("compares_all", [False, True])
def test_rows_compete_over_all_classes_if_a_method_says_so(
    toy_stream: TaskStream, compares_all: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner = Watched(setting="til", **SMALL)
    monkeypatch.setattr(Watched, "compares_all", compares_all)
    after(learner, toy_stream, 2)
    allowed = learner.training.columns.allowed(1)
    assert allowed == ((0, 1, 2, 3) if compares_all else (2, 3))
    assert learner.columns.allowed(1) == (2, 3), "predictions are within the task"


def second_layer(network: Network) -> torch.Tensor:
    assert isinstance(network, TwoLayerNetwork)
    return network.second.detach().clone()


@pytest.mark.parametrize(("remember", "built"), [("after", "trained"), ("before", "fresh")])
def test_a_memory_is_built_with_the_network_as_it_is_then(toy_stream: TaskStream, remember: str, built: str) -> None:
    seen = {}

    class Looking(RawRows):
        def build(self, observation: Observation, context: Context) -> Memory:
            seen["at building"] = second_layer(context.network)
            return super().build(observation, context)

    fresh = Replay(**SMALL)
    fresh.reset(16, 6)
    learner = Replay(remember=remember, **SMALL | {"memory": Looking(budget=3)})
    learner.observe(toy_stream[0])
    networks = {"fresh": second_layer(fresh.network), "trained": second_layer(learner.network)}
    assert [name for name, weights in networks.items() if torch.equal(weights, seen["at building"])] == [built]


def test_what_is_kept_is_what_the_bank_holds(toy_stream: TaskStream) -> None:
    learner = Replay(**SMALL)
    assert (learner.storage(), learner.report()) == (Footprint(), {})
    after(learner, toy_stream, 2)
    assert learner.storage() == Footprint(*learner.bank.size()) == Footprint(12, 12 * 16, 12 * 16 * 4 + 12 * 16)
    assert [memory.stands_for for memory in learner.bank.memories] == [{0: 24, 1: 24}, {2: 24, 3: 24}]


def test_the_report_is_that_of_the_last_task(toy_stream: TaskStream) -> None:
    learner = after(Replay(memory="kernel-matching", budget=3, epochs=1), toy_stream, 2)
    assert learner.report() == learner.bank.memories[1].report != learner.bank.memories[0].report
    assert set(learner.report()) == {"relative_loss", "steps"}


def test_parts_are_given_by_value_by_name_and_by_their_parameters() -> None:
    by_value = Replay(memory=Centroids(budget=7), loss=Balanced(pooled=False))
    by_name = Replay(memory="kmeans", loss="balanced", budget=7, pooled=False)
    dotted = Replay(memory="kmeans", loss="balanced", **{"memory.budget": 7, "loss.pooled": False})
    assert len({(each.memory, each.loss) for each in (by_value, by_name, dotted)}) == 1
    with pytest.raises(ParameterError, match="unknown memory 'kmeens': did you mean 'kmeans'"):
        Replay(memory="kmeens")


def test_merging_needs_the_class_incremental_setting() -> None:
    with pytest.raises(ParameterError, match="recurring=merge works in setting cil only"):
        Replay(recurring="merge", setting="til")
    assert isinstance(Replay(recurring="merge").bank, MemoryBank)


def test_drawn_rows_are_bounded_and_their_objective_is_that_of_all_rows_on_average(toy_stream: TaskStream) -> None:
    """Each of the losses, for every group of rows: as the mean over draws of current and of replayed rows."""
    for loss in (Debiased(), Balanced(), Plain()):
        learner = after(Watched(**SMALL | {"memory": RawRows(budget=9)}, loss=loss), toy_stream, 3)
        training = learner.training
        whole = training.objective(training.examples)
        learner.replayed = 12
        bounded = ReplayTraining(
            learner, training.observation, training.examples, Tracker(), MemoryBank(learner.bank.memories[:2]), None
        )
        assert bounded.memories is not None and bounded.counts.tolist() == training.counts.tolist()
        batches = Schedule(16, 0, 2, passes=False).batches(training.examples)
        found, sizes = [], set()
        for epoch in range(400):
            bounded.begin_epoch(epoch)
            (batch,) = batches(epoch)
            found.append(bounded.objective(batch).item())
            sizes.add(len(batch))
        assert sizes == {16}
        assert np.mean(found) == pytest.approx(whole.item(), abs=4 * float(np.std(found)) / 20)
        assert np.std(found) > 0


def test_other_rows_are_replayed_in_other_epochs_and_the_same_ones_in_the_same(toy_stream: TaskStream) -> None:
    learner = after(Watched(replayed=4, **SMALL), toy_stream, 3)
    training = learner.training
    assert training.memories is not None

    def replayed(epoch: int) -> list[float]:
        training.begin_epoch(epoch)
        rows = training.memories.draw(training._rng)
        return rows.inputs.dense().flatten().tolist()

    assert replayed(0) == replayed(0) != replayed(1)
    assert len(replayed(0)) == 4 * 16
