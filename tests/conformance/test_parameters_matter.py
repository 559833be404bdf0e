"""Every parameter of every method matters: somewhere, another value of it gives other scores or other predictions."""

from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
import pytest

from delome import FineTune, TaskStream, load_graph
from delome.methods import METHODS
from delome.parameters import Param, parameters_of

SMALL = {
    "epochs": 3,
    "hidden": 8,
    "batch_size": 12,
    "budget": 4,
    "features": 16,
    "stored": 4,
    "networks": 3,
    "memory_lr": 0.01,
    "encoders": 3,
    "encoder_width": 8,
    "dimension": 4,
    "neighbours_first": 2,
    "neighbours_second": 2,
    "establish_after": 1,
    "pool": 9,
}
"""What every learner starts from: quick, and small enough for a limit to be one on a small graph."""


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
    "fanout": Place(FANOUTS),
    "recurring": Place(again=True),
    "analytic.per_task": Place(beside={"setting": "til"}),
    "cat.fanout": Place(FANOUTS, {"train_in_memory": False}),
    "delome.init": Place(("raw", "propagated", "noise", "mixture"), {"matching": "sampled"}),
    "delome.memory_lr": Place(beside={"matching": "sampled"}),
    "delome.match_loss": Place(beside={"matching": "sampled"}),
    "delome.networks": Place(beside={"matching": "sampled"}),
    "ergnn.radius": Place((4.0, 5.0, None)),
    "ergnn.sampler": Place(beside={"radius": 4.0}),
    "hpns.establish_after": Place(beside={"epochs": 4}),
    "hpns.pool": Place((2, 3)),
    "sem-curvature.curvature": Place(("bfc", "bfc3")),
}
"""By parameter, or by method and parameter, where the usual configuration or the usual values would not do."""

NOWHERE = {
    "device": "says where numbers are computed, not which",
    "hpns.setting": "has a single value",
}


def parameters():
    """(method, parameter) of all methods."""
    for method, owner in METHODS.items():
        for name in parameters_of(owner):
            if not {name, f"{method}.{name}"} & set(NOWHERE):
                yield method, name


@pytest.fixture(scope="module")
def stream():
    """Two tasks of two classes of unequal size that overlap; most nodes have more neighbours than are drawn."""
    return TaskStream(load_graph("synthetic", nodes=100, classes=4, features=8, degree=8, imbalance=2, noise=3))


@pytest.fixture(scope="module")
def outcome(stream, scores_of):
    """What a learner makes of the stream, learned once for each configuration."""
    known = {}

    def learned(owner, values, again=False):
        key = owner, again, *values.items()
        if key not in known:
            learner = owner(**values)
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
    if parameter.choices:
        return [choice for choice in parameter.choices if choice != value]
    if parameter.type is bool:
        return [not value]
    if parameter.type is str or value is None:
        raise AssertionError(f"{parameter.name}: say in PLACES which values to compare")
    return [value + 1 if parameter.type is int else 2 * value, *[None] * parameter.optional]


def values_without_effect(outcome, owner, name, place):
    """Values of a parameter with which a learner does the same as with the first."""
    known = parameters_of(owner)
    beside = {key: value for key, value in (SMALL | place.beside).items() if key in known}
    base = beside.get(name, known[name].default)
    first, *others = place.values or (base, *other_values(known[name], base))
    expected, *found = (outcome(owner, beside | {name: value}, place.again) for value in (first, *others))
    return [other for other, each in zip(others, found, strict=True) if np.array_equal(each, expected)]


@pytest.mark.parametrize(("method", "name"), list(parameters()))
def test_other_values_of_a_parameter_change_what_is_learned(outcome, method, name):
    place = PLACES.get(f"{method}.{name}") or PLACES.get(name) or Place()
    assert values_without_effect(outcome, METHODS[method], name, place) == []


@dataclass(kw_only=True)
class Heedless(FineTune):
    """Has a parameter that nothing reads."""

    unread: Annotated[int, Param("nothing", least=0)] = 5


def test_a_parameter_that_nothing_reads_is_noticed(outcome):
    assert values_without_effect(outcome, Heedless, "unread", Place()) == [6]


def test_places_are_those_of_parameters_that_there_are():
    known = {
        each for method in METHODS for name in parameters_of(METHODS[method]) for each in (name, f"{method}.{name}")
    }
    assert {*PLACES, *NOWHERE} <= known
