"""Saved learners: everything a learner knows, in a folder that can be loaded anywhere, exactly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import delome
from delome.errors import DelomeError, ParameterError, StateError, StorageError
from delome.learning.learner import Learner
from delome.parameters import parameters_of, values_of
from delome.persistence.durable import make_folder, sole_writer, told
from delome.persistence.state import State
from delome.persistence.store import load_state, save_state

KIND = "saved learner"


def save(learner: Learner, folder: str | Path) -> None:
    """Saves a learner in place of the one that is in the folder, which stays until the new one is complete."""
    place = Path(folder)
    with told(place):
        make_folder(place)
        with sole_writer(place):
            write(learner, place)


def write(learner: Learner, folder: Path) -> None:
    """The same, for one who has already claimed the folder."""
    from delome.methods import METHODS

    names = [name for name, each in METHODS.items() if each is type(learner)]
    if not names:
        raise StateError(f"{type(learner).__name__} is not a method of delome: only those can be saved and loaded")
    about = {"method": names[0], "parameters": values_of(learner), "delome": delome.__version__}
    save_state(folder, KIND, about, learner.state())


def load(folder: str | Path, *, device: str | None = None) -> Learner:
    """The learner that was saved in a folder, on its own or another device.

    >>> import tempfile
    >>> from delome import FineTune, Graph
    >>> learner = FineTune(epochs=5)
    >>> learner.observe(Graph([[0, 1], [1, 2]], [[1.0], [0.0], [2.0]], [7, 7, 9]))
    >>> folder = tempfile.mkdtemp()
    >>> learner.save(folder)
    >>> load(folder).classes
    [7, 9]
    """
    from delome.methods import method

    place = Path(folder)
    about, state = load_state(place, KIND)
    name, parameters = about.get("method"), about.get("parameters")
    if not isinstance(name, str) or not isinstance(parameters, dict):
        raise StorageError(f"'{place}' is damaged: it does not say which method was saved")
    try:
        kind = method(name)
        if unknown := sorted(parameters.keys() - parameters_of(kind).keys()):
            raise ParameterError(f"{name} has no parameter '{unknown[0]}'")
        learner = kind(**parameters | ({} if device is None else {"device": device}))
    except ParameterError as error:
        hint = ": load it with another device, e.g. device='cpu'" if "device" in str(error) else ""
        raise StorageError(f"'{place}' holds a learner that cannot be made here: {error}{hint}") from None
    restore(learner, state, place)
    return learner


def restore(learner: Learner, state: State, source: Path) -> None:
    """Gives a learner a state that was read from a folder; refuses one that is not a state of such a learner."""
    try:
        learner.load_state(state)
        again = learner.state()
    except DelomeError as error:
        raise StorageError(f"'{source}' cannot be loaded: {error}") from None
    except Exception as error:  # nobody knows what a foreign state leads to
        raise StorageError(
            f"'{source}' cannot be loaded: its state is not one of {type(learner).__name__} ({type(error).__name__})"
        ) from None
    if _outline(again) != _outline(state):
        raise StorageError(f"'{source}' cannot be loaded: its state is not one of {type(learner).__name__}")


def _outline(state: State) -> Any:
    tensors = {name: (tensor.dtype, tuple(tensor.shape)) for name, tensor in state.tensors.items()}
    return tensors, state.values
