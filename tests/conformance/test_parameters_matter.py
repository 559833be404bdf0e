"""Every parameter of every method and of its parts matters: somewhere, another value of it gives other scores or other
predictions."""

from dataclasses import dataclass, field
from functools import reduce
from typing import Annotated, Any

import numpy as np
import pytest

from delome import FineTune, TaskStream, load_graph
from delome.backbones import BACKBONES, SGC
from delome.losses import LOSSES
from delome.memories import MEMORIES
from delome.methods import METHODS
from delome.parameters import Param, all_parameters, has_parameter
from delome.registry import Registry

SMALL = {
    "epochs": 3,
    "hidden": 8,
    "batch_size": 12,
    "budget": 4,
    "features": 16,
    "stored": 4,
    "networks": 3,
    "memory.lr": 0.01,
    "encoders": 3,
    "encoder_width": 8,
    "dimension": 4,
    "neighbours_first": 2,
    "neighbours_second": 2,
    "establish_after": 1,
    "pool": 9,
    "pretrain": 3,
    "noise": "seed",
}
"""What every learner starts from: quick, repeatable, and small enough for a limit to be one on a small graph."""

PARTS: list[tuple[str, str, Registry[Any]]] = [
    ("finetune", "backbone", BACKBONES),
    ("replay", "memory", MEMORIES),
    ("replay", "loss", LOSSES),
]
"""Where every part of a kind is tried, those included that no method has by default."""


@dataclass
class Place:
    """Where a parameter matters: what the learner has beside it, and the values that are told apart.

    The first value is what the others are compared with; without any, values are made of the parameter's type. With
    ``again`` the graphs of all tasks are learned once more, as live data in which every class is known.
    """

    values: tuple[Any, ...] = ()
    beside: dict[str, Any] = field(default_factory=dict)
    again: bool = False


FANOUTS = (None, "2,2", "1,2", "2,1")
PLACES = {
    "decay": Place(("coupled", "decoupled")),
    "passes": Place(beside={"batch_size": 12}),
    **dict.fromkeys(["joint.batch_size", "hpns.batch_size", "cat.batch_size"], Place((3, 4, 5))),
    "replayed": Place((None, 4, 6)),
    **dict.fromkeys(["cat.replayed", "puma.replayed"], Place((None, 4, 6), {"train_on": "task"})),
    "reading.columns": Place((None, 4, 6)),
    "fanout": Place(FANOUTS),
    "recurring": Place(again=True),
    **dict.fromkeys(["prototypes.setting", "tpp.setting"], Place(("cil", "til"), {"columns": 1})),
    "prototypes.seed": Place((0, 1, 2), {"columns": 4}),
    "agem.loss.pooled": Place(beside={"epochs": 30, "lr": 0.1}, again=True),
    "agem.recurring": Place(beside={"epochs": 30, "lr": 0.1, "remember": "before"}, again=True),
    "analytic.per_task": Place(beside={"setting": "til"}),
    **dict.fromkeys(["cat.fanout", "puma.fanout"], Place(FANOUTS, {"train_on": "task"})),
    **dict.fromkeys(["cat.remember", "puma.remember"], Place(beside={"train_on": "task"})),
    "puma.batch_size": Place((None, 4, 8)),
    "puma.confidence": Place((0.0, 0.3, 2.0)),
    "memory.encoder_hops": Place((None, 0, 1, 3)),
    "memory.spread": Place((0.3, 0.0, 1.0)),
    "memory.directions": Place((8, 4, 2)),
    "memory.longest": Place((None, 2.0, 3.0)),
    "memory.radius": Place((4.0, 5.0, None)),
    "memory.sampler": Place(beside={"radius": 4.0}),
    "memory.curvature": Place(("bfc", "bfc3"), {"neighbours": "curvature"}),
    "finetune, gat.backbone.hidden": Place((8, 16)),
    "hpns.establish_after": Place(beside={"epochs": 4}),
    "hpns.pool": Place((2, 3)),
}
"""By parameter, or by method and parameter, where the usual configuration or the usual values would not do."""

NOWHERE = {
    "device": "says where numbers are computed, not which",
    "hpns.setting": "has a single value",
    "er.recurring": "a reservoir does not keep tasks apart",
    "memory.epsilon_total": "refuses to build a memory, and changes none that is built",
    "epsilon_total": "refuses to learn, and changes nothing that is learned",
}


def variants():
    """(name, method, what it is given, paths of its parameters): every method, and every part in one of them."""
    for name, method in METHODS.items():
        yield name, method, {}, [path for path, _ in all_parameters(method)]
    for name, part, registry in PARTS:
        for kind in registry:
            paths = [path for path, _ in all_parameters(registry[kind], f"{part}.")]
            yield f"{name}, {kind}", METHODS[name], {part: kind}, paths


def parameters():
    """(method, what it is given, path of a parameter, where it matters)."""
    for name, method, given, paths in variants():
        for path in paths:
            if not {path, f"{name}.{path}"} & set(NOWHERE):
                place = PLACES.get(f"{name}.{path}") or PLACES.get(path) or Place()
                yield pytest.param(method, given, path, place, id=f"{name}-{path}")


@pytest.fixture(scope="module")
def stream():
    """Two tasks of two classes of unequal size that overlap; most nodes have more neighbours than are drawn."""
    return TaskStream(load_graph("synthetic", nodes=100, classes=4, features=8, degree=8, imbalance=2, noise=3))


def small(method, given):
    """A small learner with given parameters, whatever parts they choose."""
    plain = method(**given)
    return method(**{name: value for name, value in SMALL.items() if has_parameter(plain, name)} | given)


@pytest.fixture(scope="module")
def outcome(stream, scores_of):
    """What a learner makes of the stream, learned once for each configuration."""
    known = {}

    def learned(method, given, again=False):
        key = method, again, *given.items()
        if key not in known:
            learner = small(method, given)
            for data in [*stream, *(task.graph for task in stream if again)]:
                learner.observe(data)
            known[key] = np.concatenate(
                [
                    np.column_stack([scores_of(learner, task), learner.predict(task.graph, task=task.index)])
                    for task in stream
                ]
            )
        return known[key]

    return learned


def other_values(parameter, value):
    """Values that a parameter may have instead of ``value``."""
    if parameter.registry is not None:
        return [name for name in parameter.registry if parameter.registry[name] is not type(value)]
    words = [choice for choice in parameter.choices if choice != value]
    if parameter.type is str and words:
        return words
    if parameter.type is bool:
        return [not value]
    if parameter.type is str or value is None:
        raise AssertionError(f"{parameter.name}: say in PLACES which values to compare")
    return [value + 1 if parameter.type is int else 2 * value, *words, *[None] * parameter.optional]


def values_without_effect(outcome, method, given, path, place):
    """Values of a parameter with which a learner does the same as with the first."""
    given = given | place.beside
    learner = small(method, given)
    base = reduce(getattr, path.split("."), learner)
    first, *others = place.values or (base, *other_values(dict(all_parameters(learner))[path], base))
    expected, *found = (outcome(method, given | {path: value}, place.again) for value in (first, *others))
    return [other for other, each in zip(others, found, strict=True) if np.array_equal(each, expected)]


@pytest.mark.parametrize(("method", "given", "path", "place"), list(parameters()))
def test_other_values_of_a_parameter_change_what_is_learned(outcome, method, given, path, place):
    assert values_without_effect(outcome, method, given, path, place) == []


class Heedless(FineTune):
    """Has a parameter that nothing reads."""

    unread: Annotated[int, Param("nothing", at_least=0)] = 5


class HeedlessNetwork(SGC):
    """Has one too."""

    unread: Annotated[int, Param("nothing", at_least=0)] = 7


def test_a_parameter_that_nothing_reads_is_noticed(outcome):
    assert values_without_effect(outcome, Heedless, {}, "unread", Place()) == [6]
    in_part = {"backbone": HeedlessNetwork()}
    assert values_without_effect(outcome, FineTune, in_part, "backbone.unread", Place()) == [8]


def test_places_are_those_of_parameters_that_there_are():
    known = {each for name, _, _, paths in variants() for path in paths for each in (path, f"{name}.{path}")}
    assert {*PLACES, *NOWHERE} <= known
