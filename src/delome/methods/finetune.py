"""Fine-tune: keep training on each new task; the lower bound."""

from __future__ import annotations

from delome.learning import METHODS, GradientLearner


@METHODS.register("finetune")
class FineTune(GradientLearner):
    """The shared loop with the class-balanced loss and nothing against forgetting.

    >>> from delome import TaskStream, load_graph
    >>> stream = TaskStream(load_graph("digits"))
    >>> learner = FineTune(epochs=50)
    >>> for task in stream:
    ...     learner.observe(task)
    >>> [round(accuracy) for accuracy in learner.evaluate(stream)]
    [0, 0, 0, 0, 99]
    """

    family = "bound"
    citation = "baseline"
    summary = "trains on each task in turn and forgets: the lower bound"
