import numpy as np
import pytest

from delome import FineTune, Graph, TaskStream
from delome.privacy import audit
from delome.privacy.audit import LEAK
from delome.privacy.shadows import Shadow, likelihood_ratios, shadow_of
from delome.privacy.subject import Audited


@pytest.fixture(scope="module")
def graph():
    rng = np.random.default_rng(0)
    return Graph([[], []], rng.standard_normal((300, 60)), rng.integers(2, size=300))  # labels that cannot be learned


def learned(graph, split):
    stream = TaskStream(graph, split_seed=split)
    learner = FineTune(epochs=200, lr=0.02, hidden=32, seed=split)
    learner.observe(stream[0])
    return learner, stream


def test_ratios_by_hand(graph):
    learner, stream = learned(graph, 0)
    part = Audited.of_task(learner, stream[0])
    own = shadow_of(learner, stream)
    nodes = own.nodes
    # two runs with every node at 2 and at 4 as a member, two with 0 and 2 otherwise: means 3 and 1, variances 2
    shadows = [
        Shadow(nodes, np.full(len(nodes), value), np.full(len(nodes), member))
        for value, member in ((2.0, True), (4.0, True), (0.0, False), (2.0, False))
    ]
    found = likelihood_ratios(learner, [part], shadows)
    c = own.confidence[part.train]
    np.testing.assert_allclose(found.members, (-((c - 3) ** 2) + (c - 1) ** 2) / 4, rtol=1e-9)
    assert len(found.others) == len(part.held_out)


def test_nodes_that_no_shadow_run_tells_apart_are_left_out(graph):
    learner, stream = learned(graph, 0)
    part = Audited.of_task(learner, stream[0])
    shadow = Shadow(part.nodes[:10], np.zeros(10), np.ones(10, dtype=bool))
    assert len(likelihood_ratios(learner, [part], [shadow]).members) == 0


def test_shadow_runs_find_what_was_learned_by_heart(graph):
    learner, stream = learned(graph, 0)
    shadows = [shadow_of(*learned(graph, split)) for split in range(1, 6)]
    finding = audit(learner, stream, shadows=shadows).findings["model"]["shadow_auc"]
    assert finding.measure.value > 0.8 and finding.verdict == LEAK
