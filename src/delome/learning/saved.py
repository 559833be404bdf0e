"""Loading saved learners: exactly the one that was saved, on any machine."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from delome.errors import DelomeError, ParameterError, PersistenceError
from delome.learning.learner import KIND, METHODS, Learner
from delome.parameters import Find, filled
from delome.persistence.state import State
from delome.persistence.state_files import load_state
from delome.registry import Registry


def load(folder: str | Path, *, device: str | None = None, methods: Sequence[type] = ()) -> Learner:
    """The learner that was saved in a folder, on its own or another device.

    A model of a method of your own is loaded if you name its class in ``methods`` (and those of its parts that are in
    other modules): what a file says never makes this import anything.

    >>> import tempfile
    >>> from delome import FineTune, Graph
    >>> learner = FineTune(epochs=5)
    >>> learner.observe(Graph([[0, 1], [1, 2]], [[1.0], [0.0], [2.0]], [7, 7, 9]))
    >>> folder = tempfile.mkdtemp()
    >>> learner.save(folder)
    >>> load(folder).classes
    [7, 9]
    """
    place = Path(folder)
    about, state = load_state(place, KIND)
    name, parameters = about.get("method"), about.get("parameters")
    if not isinstance(name, str) or not isinstance(parameters, dict):
        raise PersistenceError(f"'{place}' is damaged: it does not say which method was saved")
    find = _among(methods)
    try:
        kind = find(METHODS, name)
        chosen = parameters | ({} if device is None else {"device": device})
        learner: Learner = kind(**filled(kind, chosen, find))
    except ParameterError as error:
        hint = ": load it with another device, e.g. device='cpu'" if "device" in str(error) else ""
        raise PersistenceError(f"'{place}' holds a learner that cannot be made here: {error}{hint}") from None
    restore(learner, state, place)
    return learner


def _among(own: Sequence[type]) -> Find:
    """Looks names up among registered classes, these, and what else the modules of these hold."""
    modules = [vars(sys.modules[each.__module__]).values() for each in own]
    classes = [*own, *(each for module in modules for each in module if isinstance(each, type))]

    def find(registry: Registry[Any], name: Any) -> Any:
        for each in classes:
            if f"{each.__module__}:{each.__qualname__}" == name:
                return each
        if isinstance(name, str) and ":" in name and name not in registry:
            raise ParameterError(
                f"{registry.kind} '{name}' is not one of delome's: name its class to allow it, "
                f"load(folder, methods=[{name.partition(':')[2]}]), or --method {name}"
            )
        return registry.find(name)

    return find


def restore(learner: Learner, state: State, source: Path) -> None:
    """Gives a learner a state that was read from a folder; refuses one that is not a state of such a learner."""
    try:
        learner.load_state(state)
        again = learner.state()
    except DelomeError as error:
        raise PersistenceError(f"'{source}' cannot be loaded: {error}") from None
    except Exception as error:  # a state from elsewhere may fail anywhere
        raise PersistenceError(
            f"'{source}' cannot be loaded: its state is not one of {type(learner).__name__} ({type(error).__name__})"
        ) from None
    if _outline(again) != _outline(state):
        raise PersistenceError(f"'{source}' cannot be loaded: its state is not one of {type(learner).__name__}")


def _outline(state: State) -> Any:
    tensors = {name: (tensor.dtype, tuple(tensor.shape)) for name, tensor in state.tensors.items()}
    return tensors, state.values
