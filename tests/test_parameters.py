from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import pytest

from delome.errors import ParameterError
from delome.methods import METHODS
from delome.parameters import (
    Param,
    Parameter,
    check_parameters,
    parameters_of,
    parse_assignments,
    values_of,
)


@dataclass(kw_only=True)
class Knobs:
    count: Annotated[int, Param("how many", least=1)] = 3
    rate: Annotated[float, Param("how fast", above=0)] = 0.5
    flag: Annotated[bool, Param("whether")] = False
    name: Annotated[str, Param("what")] = "a"
    choice: Annotated[Literal["one", "two"], Param("which")] = "one"
    limit: Annotated[int | None, Param("most", least=1)] = None
    plain: int = 7
    hidden: int = field(default=0, init=False)


def of(name: str) -> Parameter:
    return parameters_of(Knobs)[name]


def test_parameters_are_the_annotated_constructor_arguments_in_order() -> None:
    assert list(parameters_of(Knobs)) == ["count", "rate", "flag", "name", "choice", "limit"]


def test_a_parameter_knows_its_type_default_choices_and_meaning() -> None:
    assert of("count") == Parameter("count", int, False, (), 3, Param("how many", least=1))
    assert of("choice") == Parameter("choice", str, False, ("one", "two"), "one", Param("which"))
    assert of("limit") == Parameter("limit", int, True, (), None, Param("most", least=1))


def test_values_are_read_from_an_instance() -> None:
    assert values_of(Knobs(count=5)) == {
        "count": 5, "rate": 0.5, "flag": False, "name": "a", "choice": "one", "limit": None
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("count", "20", 20),
        ("count", "1e3", 1000),
        ("count", "-4", -4),
        ("count", "9007199254740993", 9007199254740993),
        ("rate", "20", 20.0),
        ("rate", "1e-4", 1e-4),
        ("flag", "true", True),
        ("flag", "ON", True),
        ("flag", "no", False),
        ("flag", "0", False),
        ("name", "none", "none"),
        ("limit", "none", None),
        ("limit", "NULL", None),
        ("limit", "", None),
        ("limit", "8", 8),
    ],
)
def test_text_becomes_a_value_of_the_parameters_type(name: str, text: str, value: object) -> None:
    parsed = of(name).parse(text)
    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("count", "2.5", "count must be a whole number, not '2.5'"),
        ("count", "many", "count must be a whole number, not 'many'"),
        ("count", "nan", "count must be a whole number, not 'nan'"),
        ("count", "inf", "count must be a whole number, not 'inf'"),
        ("count", "none", "count must be a whole number, not 'none'"),
        ("count", "", "count must be a whole number, not ''"),
        ("rate", "fast", "rate must be a number, not 'fast'"),
        ("flag", "perhaps", "flag must be true or false, not 'perhaps'"),
    ],
)
def test_text_that_is_no_value_is_refused(name: str, text: str, sentence: str) -> None:
    with pytest.raises(ParameterError) as error:
        of(name).parse(text)
    assert str(error.value) == sentence


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"count": 0}, "count must be at least 1, not 0"),
        ({"count": 2.0}, "count must be of type int, not 2.0"),
        ({"count": True}, "count must be of type int, not True"),
        ({"count": None}, "count must be of type int, not None"),
        ({"rate": 0.0}, "rate must be greater than 0, not 0.0"),
        ({"rate": float("nan")}, "rate must be finite, not nan"),
        ({"rate": float("inf")}, "rate must be finite, not inf"),
        ({"rate": "fast"}, "rate must be of type float, not 'fast'"),
        ({"flag": 1}, "flag must be of type bool, not 1"),
        ({"name": 1}, "name must be of type str, not 1"),
        ({"choice": "tow"}, "unknown choice 'tow': did you mean 'two'? (known: one, two)"),
        ({"limit": 0}, "limit must be at least 1, not 0"),
    ],
)
def test_impossible_values_are_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ParameterError) as error:
        check_parameters(Knobs(**changes))
    assert str(error.value) == sentence


@pytest.mark.parametrize("changes", [{}, {"rate": 1}, {"limit": None}, {"limit": 1}, {"count": 1}, {"choice": "two"}])
def test_possible_values_pass(changes: dict[str, Any]) -> None:
    check_parameters(Knobs(**changes))


def test_assignments_become_checked_values() -> None:
    assignments = ["count=4", " rate = 2 ", "limit=none", "name=x=y"]
    assert parse_assignments(Knobs, assignments, "the knobs") == {
        "count": 4, "rate": 2.0, "limit": None, "name": "x=y"
    }  # fmt: skip


def test_the_last_of_two_assignments_counts() -> None:
    assert parse_assignments(Knobs, ["count=4", "count=5"], "the knobs") == {"count": 5}


@pytest.mark.parametrize(
    ("assignment", "sentence"),
    [
        ("count", "'count' is not of the form name=value"),
        (
            "cuont=4",
            "unknown parameter of the knobs 'cuont': did you mean 'count'? "
            "(known: choice, count, flag, limit, name, rate)",
        ),
        ("plain=4", "unknown parameter of the knobs 'plain' (known: choice, count, flag, limit, name, rate)"),
        ("count=0", "count must be at least 1, not 0"),
        ("choice=three", "unknown choice 'three' (known: one, two)"),
    ],
)
def test_wrong_assignments_are_refused(assignment: str, sentence: str) -> None:
    with pytest.raises(ParameterError) as error:
        parse_assignments(Knobs, [assignment], "the knobs")
    assert str(error.value) == sentence


@pytest.mark.parametrize("method", METHODS)
def test_every_method_has_parameters_with_a_meaning_and_a_default_that_passes(method: str) -> None:
    owner = METHODS[method]
    parameters = parameters_of(owner)
    assert {"setting", "seed", "device"} <= parameters.keys()
    for parameter in parameters.values():
        assert parameter.param.help
        parameter.check(parameter.default)
    assert values_of(owner()) == {name: parameter.default for name, parameter in parameters.items()}
