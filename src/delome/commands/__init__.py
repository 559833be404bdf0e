"""What the command line does, as calls: run configurations, collect results, let a saved model learn and predict."""

from delome.commands.audit import Audited, audit
from delome.commands.learn import Learned, learn
from delome.commands.predict import Predicted, predict
from delome.commands.report import Report, report
from delome.commands.results import results
from delome.commands.run import Run, run
from delome.commands.sweep import SweepReport, sweep

__all__ = [
    "Audited",
    "Learned",
    "Predicted",
    "Report",
    "Run",
    "SweepReport",
    "audit",
    "learn",
    "predict",
    "report",
    "results",
    "run",
    "sweep",
]
