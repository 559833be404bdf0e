"""Every method by name."""

from delome.errors import ParameterError, unknown
from delome.methods.analytic import Analytic
from delome.methods.delome import DeLoMe
from delome.methods.ewc import EWC
from delome.methods.finetune import FineTune
from delome.methods.gem import GEM
from delome.methods.gradient import GradientLearner
from delome.methods.joint import Joint
from delome.methods.learner import Learner
from delome.methods.lwf import LwF
from delome.methods.mas import MAS
from delome.methods.replay import Replay
from delome.methods.row_replay import RowReplay

METHODS: dict[str, type[Learner]] = {
    "finetune": FineTune,
    "joint": Joint,
    "ewc": EWC,
    "mas": MAS,
    "gem": GEM,
    "lwf": LwF,
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
    "EWC",
    "GEM",
    "MAS",
    "METHODS",
    "Analytic",
    "DeLoMe",
    "FineTune",
    "GradientLearner",
    "Joint",
    "Learner",
    "LwF",
    "Replay",
    "RowReplay",
    "method",
]
