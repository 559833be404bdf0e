"""Every method, each in a file that can be read beside its paper."""

from delome.learning import METHODS
from delome.learning.replay import Replay

from delome.methods.finetune import FineTune  # isort: skip  # in the order in which they are listed
from delome.methods.joint import Joint  # isort: skip
from delome.methods.ewc import EWC  # isort: skip
from delome.methods.mas import MAS  # isort: skip
from delome.methods.gem import GEM  # isort: skip
from delome.methods.lwf import LwF  # isort: skip
from delome.methods.twp import TWP  # isort: skip
from delome.methods.hpns import HPNs  # isort: skip
from delome.methods.ergnn import ERGNN  # isort: skip
from delome.methods.ssm import SEMCurvature, SSMDegree, SSMUniform  # isort: skip
from delome.methods.cat import CaT  # isort: skip
from delome.methods.delome import DeLoMe  # isort: skip
from delome.methods.analytic import Analytic  # isort: skip
from delome.methods.slda import SLDA  # isort: skip
from delome.methods.prototypes import Prototypes  # isort: skip
from delome.methods.er import ER  # isort: skip
from delome.methods.agem import AGEM  # isort: skip
from delome.methods.tpp import TPP, TPPNodes  # isort: skip
from delome.methods.puma import PUMA  # isort: skip
from delome.methods.private import Private  # isort: skip
from delome.methods import replay  # isort: skip

__all__ = [
    "AGEM",
    "ER",
    "ERGNN",
    "EWC",
    "GEM",
    "MAS",
    "METHODS",
    "PUMA",
    "SLDA",
    "TPP",
    "TWP",
    "Analytic",
    "CaT",
    "DeLoMe",
    "FineTune",
    "HPNs",
    "Joint",
    "LwF",
    "Private",
    "Prototypes",
    "Replay",
    "SEMCurvature",
    "SSMDegree",
    "SSMUniform",
    "TPPNodes",
    "replay",
]
