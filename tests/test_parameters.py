from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from typing import Annotated, Any, Literal

import pytest

from delome.errors import ParameterError
from delome.methods import METHODS
from delome.parameters import (
    Component,
    Configured,
    Param,
    Parameter,
    Part,
    all_parameters,
    check_parameters,
    filled,
    has_parameter,
    parameter_value,
    parameters_of,
    parse_assignments,
    values_of,
)
from delome.registry import Registry


@dataclass(kw_only=True)
class Knobs:
    count: Annotated[int, Param("how many", at_least=1)] = 3
    rate: Annotated[float, Param("how fast", above=0)] = 0.5
    flag: Annotated[bool, Param("whether")] = False
    name: Annotated[str, Param("what")] = "a"
    choice: Annotated[Literal["one", "two"], Param("which")] = "one"
    limit: Annotated[int | None, Param("most", at_least=1)] = None
    plain: int = 7
    hidden: int = field(default=0, init=False)


def of(name: str) -> Parameter:
    return parameters_of(Knobs)[name]


def test_parameters_are_the_annotated_constructor_arguments_in_order() -> None:
    assert list(parameters_of(Knobs)) == ["count", "rate", "flag", "name", "choice", "limit"]


def test_a_parameter_knows_its_type_default_choices_and_meaning() -> None:
    assert of("count") == Parameter("count", int, False, (), 3, Param("how many", at_least=1))
    assert of("choice") == Parameter("choice", str, False, ("one", "two"), "one", Param("which"))
    assert of("limit") == Parameter("limit", int, True, (), None, Param("most", at_least=1))


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
    learner = owner()
    assert all(getattr(learner, name) == parameter.default for name, parameter in parameters.items())


ENGINES: Registry[Any] = Registry("engine", "engines")
WHEELS: Registry[Any] = Registry("wheel", "wheels")


@WHEELS.register("round")
class Round(Component):
    radius: Annotated[float, Param("how large", above=0)] = 1.0


@ENGINES.register("steam")
class Steam(Component):
    power: Annotated[int, Param("how strong", at_least=1)] = 5
    colour: Annotated[str, Param("which colour")] = "black"


@ENGINES.register("electric")
class Electric(Component):
    power: Annotated[int, Param("how strong", at_least=1)] = 50
    wheel: Annotated[Component, Part("what it turns", WHEELS)] = Round()


class Car(Configured):
    engine: Annotated[Component, Part("what drives it", ENGINES)] = Steam()
    spare: Annotated[Component, Part("in the boot", WHEELS)] = Round(radius=0.5)
    doors: Annotated[int, Param("how many", at_least=1)] = 4


class Tram(Car):
    engine = Electric(power=300)
    doors = 8


def test_a_part_is_given_as_a_value_by_name_or_as_a_mapping() -> None:
    for engine in (Electric(), "electric", {"name": "electric"}, {"name": "electric", "power": 50}):
        assert Car(engine=engine).engine == Electric()
    assert Car(engine={"power": 7}).engine == Steam(power=7), "without a name it is the default one that changes"
    assert Tram(engine={"wheel": {"radius": 3.0}}).engine == Electric(power=300, wheel=Round(radius=3.0))


def test_a_subclass_may_give_another_default() -> None:
    assert (Tram().engine, Tram().doors) == (Electric(power=300), 8)
    assert parameters_of(Tram)["doors"].default == 8


def test_parameters_of_a_part_are_set_by_their_own_or_dotted_name() -> None:
    assert Car(power=9).engine == Steam(power=9)
    assert Car(**{"engine.power": 9}).engine == Steam(power=9)
    assert Tram(**{"engine.wheel.radius": 2.0}).engine == Electric(power=300, wheel=Round(radius=2.0))
    assert Car(engine="electric", power=9).engine == Electric(power=9)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"engine": "stem"}, "unknown engine 'stem': did you mean 'steam'? (known: electric, steam)"),
        ({"engine": 3}, "engine must be a engine or the name of one, not 3"),
        ({"engine": Steam}, "engine must be a engine or the name of one, not <class"),
        ({"powr": 3}, "unknown parameter of Car 'powr': did you mean 'power'? (known: colour, doors, engine, power"),
        ({"power": 0}, "power must be at least 1, not 0"),
        ({"engine": "electric", "radius": 2.0}, "radius may be engine.wheel.radius or spare.radius: write which"),
        ({"engine": {"speed": 3}}, "unknown parameter of Steam 'speed' (known: colour, power)"),
        ({"engine.speed": 3}, "unknown parameter of Car 'engine.speed': did you mean 'engine'? (known: colour, doors"),
    ],
)
def test_wrong_parts_are_refused(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ParameterError) as error:
        Car(**given)
    assert str(error.value).startswith(sentence)


def test_values_of_parts_are_mappings_that_make_the_same_parts_again() -> None:
    tram = Tram(**{"engine.wheel.radius": 2.0, "spare.radius": 4.0})
    values = values_of(tram)
    assert values == {
        "engine": {"name": "electric", "power": 300, "wheel": {"name": "round", "radius": 2.0}},
        "spare": {"name": "round", "radius": 4.0},
        "doors": 8,
    }
    assert values_of(Tram(**values)) == values


def test_parts_can_be_looked_up_elsewhere() -> None:
    found = filled(Car, {"engine": {"name": "mine", "power": 2}}, lambda registry, name: Electric)
    assert found["engine"] == Electric(power=2)


def test_all_parameters_are_listed_with_those_of_parts_below() -> None:
    assert [name for name, _ in all_parameters(Car)] == [
        "engine", "engine.power", "engine.colour", "spare", "spare.radius", "doors"
    ]  # fmt: skip
    assert [name for name, _ in all_parameters(Car(engine="electric"))][:4] == [
        "engine", "engine.power", "engine.wheel", "engine.wheel.radius"
    ]  # fmt: skip


def test_defaults_are_those_of_the_default_part_and_not_of_its_class() -> None:
    def defaults(owner: Any) -> dict[str, Any]:
        return {path: parameter.default for path, parameter in all_parameters(owner)}

    assert (defaults(Tram)["engine.power"], defaults(Electric)["power"]) == (300, 50)
    assert defaults(Car)["spare.radius"] == 0.5
    assert defaults(Car(power=9))["engine.power"] == 9


@pytest.mark.parametrize("method", METHODS)
def test_every_listed_default_is_the_value_of_an_instance(method: str) -> None:
    learner = METHODS[method](setting=METHODS[method].settings[0])
    for path, parameter in all_parameters(METHODS[method]):
        assert parameter.default == reduce(getattr, path.split("."), learner), path


def test_parameters_are_found_wherever_they_are() -> None:
    assert has_parameter(Car(), "power") and not has_parameter(Car(), "speed")
    assert not has_parameter(Tram(), "radius"), "two parts have it"
    assert (parameter_value(Car(), "power"), parameter_value(Car(), "speed")) == (5, None)


def test_assignments_choose_parts_before_their_parameters() -> None:
    assignments = ["power=7", "engine=electric", "engine.wheel.radius=3", "doors=2"]
    car = Car(**parse_assignments(Car, assignments, "a car"))
    assert (car.engine, car.doors) == (Electric(power=7, wheel=Round(radius=3.0)), 2)
    with pytest.raises(ParameterError, match="unknown parameter of a car 'colour'"):
        parse_assignments(Car, ["engine=electric", "colour=red"], "a car")


def test_two_are_never_equal_and_say_what_was_changed() -> None:
    assert Car() != Car() and len({Car(), Car()}) == 2
    assert repr(Tram(doors=9)) == "Tram(doors=9)"
    assert repr(Car(power=6)) == "Car(engine=Steam(power=6, colour='black'))"


def test_docstrings_are_those_that_were_written() -> None:
    class Bare(Configured):
        doors: Annotated[int, Param("doors")] = 5

    class Described(Configured):
        """Has doors."""

    assert (Bare.__doc__, Described.__doc__) == (None, "Has doors.")


class Counted(Component):
    count: Annotated[int | Literal["all"], Param("how many, or all", at_least=1)] = 3


def test_a_number_may_be_one_of_a_few_words():
    parameter = parameters_of(Counted)["count"]
    assert (parameter.type, parameter.choices, parameter.optional) == (int, ("all",), False)
    assert [parameter.parse(text) for text in ("7", "all")] == [7, "all"]
    assert Counted(count="all").count == "all"
    with pytest.raises(ParameterError, match=r"^count must be a whole number or all, not 'none'$"):
        parameter.parse("none")
    with pytest.raises(ParameterError, match=r"^count must be of type int or all, not 'some'$"):
        Counted(count="some")  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match=r"^count must be at least 1, not 0$"):
        Counted(count=0)
