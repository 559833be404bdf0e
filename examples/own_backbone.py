"""A backbone of one's own: three layers on hops 0, 1 and 2 side by side (in the manner of SIGN, Frasca et al., 2020).

Try it: delome run --set backbone=own_backbone:SIGN --set hidden=64"""

import numpy as np
from torch.nn import Parameter

import delome
from delome.backbones.two_layers import TwoLayerNetwork, TwoLayers
from delome.graph.rows import Rows
from delome.graph.sparse import to_dense
from delome.randomness import uniform


class SIGN(TwoLayers):
    def prepare(self, graph, device):
        hops = [graph.propagate(hop) for hop in range(3)]
        return graph.cached(("sign", device), lambda: Rows.of(np.hstack([to_dense(hop) for hop in hops]), device))

    def join(self, parts):
        return Rows.join(parts)

    def network(self, features, classes, rng, device):
        return SIGNNetwork(self, 3 * features, classes, rng, device)


class SIGNNetwork(TwoLayerNetwork):
    def __init__(self, backbone, features, classes, rng, device):
        super().__init__(backbone, features, classes, rng, device)
        self.middle = Parameter(uniform(rng, (backbone.hidden,) * 2, backbone.hidden**-0.5).to(device))

    def forward(self, inputs):
        return (inputs.times(self.first).relu() @ self.middle).relu() @ self.second


if __name__ == "__main__":
    stream, learner = delome.TaskStream(delome.load_graph("digits")), delome.DeLoMe(backbone=SIGN(hidden=64), epochs=50)
    for task in stream:
        learner.observe(task)
    print(learner.evaluate(stream))
