"""The contract of every method, and what methods share."""

from delome.learning.gradient import GradientLearner
from delome.learning.learner import METHODS, Learner
from delome.learning.training import TaskTraining

__all__ = ["METHODS", "GradientLearner", "Learner", "TaskTraining"]
