"""What a package exports is imported when it is asked for, and looks as if it had been there all the time."""

import importlib
import subprocess
import sys

import pytest

PACKAGES = ["delome", "delome.datasets", "delome.experiment"]


@pytest.mark.parametrize("name", PACKAGES)
def test_every_exported_name_can_be_had_and_is_listed(name):
    package = importlib.import_module(name)
    assert {*package.__all__} <= {*dir(package)}
    for each in package.__all__:
        assert getattr(getattr(package, each), "__name__", each) == each


def test_names_of_another_kind_are_not_hidden_by_files():
    import delome

    assert all(callable(getattr(delome, name)) for name in ("learn", "predict", "results", "run", "sweep", "load"))


@pytest.mark.parametrize("name", PACKAGES)
def test_what_is_not_there_is_missed_as_anywhere(name):
    package = importlib.import_module(name)
    assert not hasattr(package, "nonsense") and not hasattr(package, "__wrapped__")
    with pytest.raises(ImportError, match=f"cannot import name 'nonsense' from '{name}'"):
        exec(f"from {name} import nonsense")


@pytest.mark.parametrize(
    ("statement", "loaded"),
    [
        ("import delome", False),
        ("import delome; delome.DelomeError", False),
        ("import delome.experiment, delome.datasets", False),
        ("import delome; delome.Graph", True),
        ("import delome; delome.losses.Balanced", True),
        ("from delome import *; DeLoMe(budget=3)", True),
    ],
)
def test_torch_is_imported_when_it_is_needed(statement, loaded):
    code = f"import sys; {statement}; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == f"{loaded}\n"


def test_methods_are_registered_when_they_are_looked_up():
    code = "from delome.learning import METHODS; print(next(iter(METHODS)), METHODS['delome'].__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "finetune DeLoMe\n"
