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
    from delome.commands import audit, learn, predict, results, run, sweep
    from delome.datasets import load_graph
    from delome.errors import DelomeError
    from delome.graph import Graph
    from delome.learning import Learner
    from delome.learning.saved import load
    from delome.methods import (
        ERGNN,
        EWC,
        GEM,
        MAS,
        TWP,
        Analytic,
        CaT,
        DeLoMe,
        FineTune,
        HPNs,
        Joint,
        LwF,
        Private,
        Replay,
        SEMCurvature,
        SSMDegree,
        SSMUniform,
    )
    from delome.metrics import AccuracyMatrix
    from delome.streams.task_stream import TaskStream
    from delome.streams.tasks import Stream, Task
else:
    __getattr__, __dir__ = exported(
        __name__,
        {
            "delome.commands": "audit learn predict results run sweep",
            "delome.datasets": "load_graph",
            "delome.errors": "DelomeError",
            "delome.graph": "Graph",
            "delome.learning": "Learner",
            "delome.learning.saved": "load",
            "delome.methods": "ERGNN EWC GEM MAS TWP Analytic CaT DeLoMe FineTune HPNs Joint LwF Private Replay "
            "SEMCurvature SSMDegree SSMUniform",
            "delome.metrics": "AccuracyMatrix",
            "delome.streams.task_stream": "TaskStream",
            "delome.streams.tasks": "Stream Task",
        },
    )

__version__ = "0.1.0"

logging.getLogger(__name__).addHandler(logging.NullHandler())  # a library is silent until somebody listens

__all__ = [
    "ERGNN",
    "EWC",
    "GEM",
    "MAS",
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
    "Replay",
    "SEMCurvature",
    "SSMDegree",
    "SSMUniform",
    "Stream",
    "Task",
    "TaskStream",
    "audit",
    "learn",
    "load",
    "load_graph",
    "predict",
    "results",
    "run",
    "sweep",
]
