"""Every method by name."""

from delome.errors import ParameterError, shown, unknown
from delome.learning.gradient import GradientLearner
from delome.learning.learner import Learner
from delome.learning.replay import Replay
from delome.methods.analytic import Analytic
from delome.methods.cat import CaT
from delome.methods.delome import DeLoMe
from delome.methods.ergnn import ERGNN
from delome.methods.ewc import EWC
from delome.methods.finetune import FineTune
from delome.methods.gem import GEM
from delome.methods.hpns import HPNs
from delome.methods.joint import Joint
from delome.methods.lwf import LwF
from delome.methods.mas import MAS
from delome.methods.row_replay import RowReplay
from delome.methods.sem import SEMCurvature
from delome.methods.ssm import SSMDegree, SSMUniform
from delome.methods.twp import TWP

METHODS: dict[str, type[Learner]] = {
    "finetune": FineTune,
    "joint": Joint,
    "ewc": EWC,
    "mas": MAS,
    "gem": GEM,
    "lwf": LwF,
    "twp": TWP,
    "hpns": HPNs,
    "ergnn": ERGNN,
    "ssm-uniform": SSMUniform,
    "ssm-degree": SSMDegree,
    "sem-curvature": SEMCurvature,
    "cat": CaT,
    "delome": DeLoMe,
    "analytic": Analytic,
    "replay": RowReplay,
}


def method(name: str) -> type[Learner]:
    """Class of a method by its registered name."""
    if not isinstance(name, str) or name not in METHODS:
        raise ParameterError(unknown("method", name if isinstance(name, str) else shown(name), METHODS))
    return METHODS[name]


__all__ = [
    "ERGNN",
    "EWC",
    "GEM",
    "MAS",
    "METHODS",
    "TWP",
    "Analytic",
    "CaT",
    "DeLoMe",
    "FineTune",
    "GradientLearner",
    "HPNs",
    "Joint",
    "Learner",
    "LwF",
    "Replay",
    "RowReplay",
    "SEMCurvature",
    "SSMDegree",
    "SSMUniform",
    "method",
]
