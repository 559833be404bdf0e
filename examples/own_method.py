"""A memory and a method of one's own: rows drawn around class means, replayed under the balanced loss.

Try it: delome run --method own_method:NoisyMeans --set spread=0.5, and delome check own_method:NoisyMeans"""

from typing import Annotated

import numpy as np

import delome
from delome.graph.sparse import to_dense
from delome.losses import Balanced
from delome.memories import Memory, MemoryBuilder
from delome.parameters import Param


class NoisyRows(MemoryBuilder):
    spread: Annotated[float, Param("noise, as a share of the standard deviation", at_least=0)] = 1.0

    def build(self, observation, context):
        rows, drawn = to_dense(observation.graph.propagate(context.hops)), []
        for column in observation.classes:
            own = rows[observation.train[observation.labels == column]]
            noise = context.rng.standard_normal((min(self.budget, len(own)), own.shape[1]), dtype=np.float32)
            drawn.append(own.mean(axis=0) + self.spread * own.std(axis=0) * noise)
        columns = np.repeat(observation.classes, [len(part) for part in drawn])
        return Memory.of_rows(observation.index, np.concatenate(drawn), columns)


class NoisyMeans(delome.Replay):
    """Replays rows drawn around class means."""

    memory, loss, summary = NoisyRows(), Balanced(), "replays rows drawn around class means"


if __name__ == "__main__":
    stream, learner = delome.TaskStream(delome.load_graph("digits")), NoisyMeans(budget=10, epochs=50)
    for task in stream:
        learner.observe(task)
    learner.save("noisy-means")
    print(delome.load("noisy-means", methods=[NoisyMeans]).evaluate(stream))
