"""delome: learning on graphs that keep growing.

from delome import DeLoMe, TaskStream, load_graph

stream = TaskStream(load_graph("digits"), classes_per_task=2)
learner = DeLoMe(budget=20)
for task in stream:
    learner.observe(task)
    print(learner.evaluate(stream.seen(task)))
"""

import logging
from typing import TYPE_CHECKING

from delome.lazy import exported

if TYPE_CHECKING:
    from delome.commands import audit, learn, predict, report, results, run, sweep
    from delome.datasets import load_graph
    from delome.errors import DelomeError
    from delome.graph import Graph
    from delome.learning import Learner
    from delome.learning.saved import load
    from delome.methods import (
        AGEM,
        ER,
        ERGNN,
        EWC,
        GEM,
        MAS,
        PUMA,
        SLDA,
        TPP,
        TWP,
        Analytic,
        CaT,
        DeLoMe,
        FineTune,
        HPNs,
        Joint,
        LwF,
        Private,
        Prototypes,
        Replay,
        SEMCurvature,
        SSMDegree,
        SSMUniform,
        TPPNodes,
    )
    from delome.metrics import AccuracyMatrix
    from delome.streams.task_stream import TaskStream
    from delome.streams.tasks import Stream, Task
else:
    __getattr__, __dir__ = exported(
        __name__,
        {
            "delome.commands": "audit learn predict report results run sweep",
            "delome.datasets": "load_graph",
            "delome.errors": "DelomeError",
            "delome.graph": "Graph",
            "delome.learning": "Learner",
            "delome.learning.saved": "load",
            "delome.methods": "AGEM ER ERGNN EWC GEM MAS PUMA SLDA TPP TWP Analytic CaT DeLoMe FineTune HPNs Joint LwF "
            "Private Prototypes Replay SEMCurvature SSMDegree SSMUniform TPPNodes",
            "delome.metrics": "AccuracyMatrix",
            "delome.streams.task_stream": "TaskStream",
            "delome.streams.tasks": "Stream Task",
        },
    )

__version__ = "0.1.0"

logging.getLogger(__name__).addHandler(logging.NullHandler())  # a library is silent until somebody listens

__all__ = [
    "AGEM",
    "ER",
    "ERGNN",
    "EWC",
    "GEM",
    "MAS",
    "PUMA",
    "SLDA",
    "TPP",
    "TWP",
    "AccuracyMatrix",
    "Analytic",
    "CaT",
    "DeLoMe",
    "DelomeError",
    "FineTune",
    "Graph",
    "HPNs",
    "Joint",
    "Learner",
    "LwF",
    "Private",
    "Prototypes",
    "Replay",
    "SEMCurvature",
    "SSMDegree",
    "SSMUniform",
    "Stream",
    "TPPNodes",
    "Task",
    "TaskStream",
    "audit",
    "learn",
    "load",
    "load_graph",
    "predict",
    "report",
    "results",
    "run",
    "sweep",
]
