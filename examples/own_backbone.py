"""A backbone of one's own: three layers on hops 0, 1 and 2 side by side (in the manner of SIGN, Frasca et al., 2020).

python own_backbone.py
delome run --set backbone=own_backbone:SIGN --set hidden=64
"""

from typing import Annotated

import numpy as np
from torch.nn import Parameter

import delome
from delome.backbones import Backbone, Network
from delome.backbones.backbone import widened
from delome.graph.rows import Rows
from delome.graph.sparse import to_dense
from delome.parameters import Param
from delome.randomness import uniform


class SIGN(Backbone):
    hidden: Annotated[int, Param("units of each hidden layer", at_least=1)] = 128

    def prepare(self, graph, device):
        hops = np.concatenate([to_dense(graph.propagate(hop)) for hop in range(3)], axis=1)
        return graph.cached(("sign", device), lambda: Rows.of(hops, device))

    def join(self, parts):
        return Rows.join(parts)

    def network(self, features, classes, rng, device):
        return SIGNNetwork(self, features, classes, rng, device)


class SIGNNetwork(Network):
    def __init__(self, backbone, features, classes, rng, device):
        super().__init__(backbone, device)
        sizes = [(3 * features, backbone.hidden), (backbone.hidden, backbone.hidden), (backbone.hidden, classes)]
        self.first, self.second, self.third = (
            Parameter(uniform(rng, size, size[0] ** -0.5).to(device)) for size in sizes
        )

    def forward(self, inputs):
        return (inputs.times(self.first).relu() @ self.second).relu() @ self.third

    def grow(self, classes, rng):
        hidden, known = self.third.shape
        self.third = widened(self.third, uniform(rng, (hidden, classes - known), hidden**-0.5))


if __name__ == "__main__":
    stream = delome.TaskStream(delome.load_graph("digits"))
    for method in (delome.DeLoMe, delome.Joint, delome.FineTune, delome.ERGNN):
        learner = method(backbone=SIGN(hidden=64), epochs=50)
        for task in stream:
            learner.observe(task)
        print(method.__name__, learner.evaluate(stream))
