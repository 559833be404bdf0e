import numpy as np
import pytest

from delome.methods import RowReplay


@pytest.mark.parametrize("memory", ["raw", "propagated", "kmeans"])
@pytest.mark.parametrize("weighing", ["plain", "balanced", "debiased"])
def test_every_memory_with_every_loss_remembers(toy_stream, memory, weighing):
    learner = RowReplay(budget=10, epochs=100, memory=memory, weighing=weighing)
    for task in toy_stream:
        learner.observe(task)
    assert np.mean(learner.evaluate(toy_stream)) > 90
