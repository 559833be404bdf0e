"""Every method by name."""

from delome.errors import ParameterError, unknown
from delome.methods.analytic import Analytic
from delome.methods.delome import DeLoMe
from delome.methods.finetune import FineTune
from delome.methods.gradient import GradientLearner
from delome.methods.joint import Joint
from delome.methods.learner import Learner
from delome.methods.replay import Replay
from delome.methods.row_replay import RowReplay

METHODS: dict[str, type[Learner]] = {
    "finetune": FineTune,
    "joint": Joint,
    "delome": DeLoMe,
    "analytic": Analytic,
    "replay": RowReplay,
}


def method(name: str) -> type[Learner]:
    """Class of a method by its registered name."""
    if name not in METHODS:
        raise ParameterError(unknown("method", name, METHODS))
    return METHODS[name]


__all__ = [
    "METHODS",
    "Analytic",
    "DeLoMe",
    "FineTune",
    "GradientLearner",
    "Joint",
    "Learner",
    "Replay",
    "RowReplay",
    "method",
]
