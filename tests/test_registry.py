"""Names for what can be chosen, ours and yours."""

import sys
from importlib.metadata import EntryPoint

import pytest

from delome import registry as registries
from delome.errors import ParameterError
from delome.registry import Registry


@pytest.fixture
def colours():
    found: Registry[type] = Registry("colour", "colours")

    @found.register("red")
    class Red: ...

    found.add("blue", int)
    return found


def test_entries_are_found_by_name_in_the_order_of_registration(colours):
    assert list(colours) == ["red", "blue"] and len(colours) == 2
    assert colours["blue"] is colours.find("blue") is int
    assert colours.name_of(int) == "blue"
    assert colours.name_of(float) == "builtins:float"


def test_an_unknown_name_is_refused_with_the_nearest_one(colours):
    with pytest.raises(ParameterError, match=r"unknown colour 'rde': did you mean 'red'\? \(known: blue, red\)"):
        colours.find("rde")
    with pytest.raises(ParameterError, match="unknown colour '7'"):
        colours.find(7)


def test_a_name_is_given_once(colours):
    colours.add("blue", int)
    with pytest.raises(ParameterError, match="there is a colour called 'blue' already: choose another name"):
        colours.add("blue", float)


def test_installed_packages_add_entries(colours, monkeypatch):
    point = EntryPoint("green", "fractions:Fraction", "delome.colours")
    monkeypatch.setattr(registries, "entry_points", lambda group: [point] if group == "delome.colours" else [])
    assert colours["green"].__name__ == "Fraction"
    assert list(colours) == ["red", "blue", "green"]


def test_what_is_registered_is_not_replaced_by_a_package(colours, monkeypatch):
    point = EntryPoint("red", "fractions:Fraction", "delome.colours")
    monkeypatch.setattr(registries, "entry_points", lambda group: [point])
    assert colours.find("red").__name__ == "Red" and len(colours) == 2


def test_a_class_in_a_file_can_be_typed(colours, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "my_colours.py").write_text("class Teal: ...\n")
    assert colours.importable("my_colours:Teal").__name__ == "Teal"
    assert colours.importable("red") is colours["red"]
    for name, sentence in {
        "my_colors:Teal": "cannot import colour 'my_colors:Teal': there is no module 'my_colors' here",
        "my_colours:Tael": "cannot import colour 'my_colours:Tael': module 'my_colours' has no 'Tael'",
        "my colours:Teal": "unknown colour 'my colours:Teal'",
    }.items():
        with pytest.raises(ParameterError) as error:
            colours.importable(name)
        assert str(error.value).startswith(sentence)


def test_looking_up_a_name_never_imports(colours, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "trap.py").write_text("raise SystemExit('imported')\n")
    with pytest.raises(ParameterError, match="unknown colour 'trap:Trap'"):
        colours.find("trap:Trap")


def test_our_own_come_first_even_if_their_module_is_imported_last(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "our_colours.py").write_text(
        "from __main__ import OUR_COLOURS\nOUR_COLOURS.add('white', bytes)\n",
    )
    found: Registry[type] = Registry("colour", "colours", home="our_colours")
    monkeypatch.setattr(sys.modules["__main__"], "OUR_COLOURS", found, raising=False)
    with pytest.raises(ParameterError, match="there is a colour called 'white' already"):
        found.add("white", int)
    found.add("black", int)
    assert list(found) == ["white", "black"] and found["white"] is bytes
