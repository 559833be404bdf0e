"""What the command line does, as calls: run a configuration, let a saved model learn, let it predict."""

from delome.commands.learn import Learned, learn
from delome.commands.predict import Predicted, predict
from delome.commands.run import Run, run

__all__ = ["Learned", "Predicted", "Run", "learn", "predict", "run"]
