import json

import numpy as np
import pytest

from delome import ERGNN, CaT, DeLoMe, FineTune, Graph, Joint, Private, Replay, SSMUniform, TaskStream, load_graph
from delome.errors import ParameterError, StateError
from delome.memories import Memory, MemoryBuilder
from delome.privacy import audit
from delome.privacy.audit import BLIND, LEAK, NO_LEAK, Finding
from delome.privacy.measure import Measure


class Noise(MemoryBuilder):
    """Rows that know nothing of any node."""

    def build(self, observation, context):
        rows = context.rng.standard_normal((self.budget * len(observation.classes), observation.graph.num_features))
        labels = np.repeat(observation.classes, self.budget)
        return Memory.of_rows(observation.index, rows.astype(np.float32), labels)


@pytest.fixture(scope="module")
def stream():
    return TaskStream(load_graph("synthetic", nodes=800, classes=4, features=24, degree=4, noise=1.0))


def learned(learner, stream):
    for task in stream:
        learner.observe(task)
    return learner


def found(learner, stream, where, name, **options):
    return audit(learned(learner, stream), stream, **options).findings[where][name]


@pytest.mark.parametrize("method", [ERGNN, SSMUniform])
def test_memories_of_nodes_are_reidentified(method, stream):
    for name in ("reidentified", "exact_copies"):
        finding = found(method(budget=10, epochs=1), stream, "raw", name)
        assert finding.measure.value == 1.0 and finding.verdict == LEAK
        assert finding.measure.control < 0.01


def test_rows_of_propagated_space_are_found_there(stream):
    graph = load_graph("synthetic", nodes=800, classes=4, features=24, degree=1, noise=1.0)  # some have no neighbours
    lonely = TaskStream(graph)
    report = audit(learned(Replay(memory="propagated", budget=60, epochs=1), lonely), lonely)
    # all but those whose propagated row is that of a held-out node too
    assert report.findings["propagated"]["reidentified"].measure.value > 0.9
    assert 0 < report.findings["raw"]["exact_copies"].measure.value < 0.8


def test_planted_leaks_are_found_and_noise_is_at_chance_over_seeds(stream):
    # of every measure of twenty audits: what is planted is seen, and noise is not taken for a leak
    seen, taken, total = dict.fromkeys(["exact_copies", "closer_to_training", "reidentified"], 0), 0, 0
    values = []
    for seed in range(20):
        learner = learned(Replay(memory=Noise(budget=15), epochs=1, seed=seed), stream)
        for space in ("raw", "propagated"):
            findings = audit(learner, stream, seed=seed).findings[space]
            for finding in findings.values():
                taken += finding.verdict == LEAK
                total += 1
            values.append(findings["membership_auc"].measure.value)
        planted = learned(Replay(memory="raw", budget=15, epochs=1, seed=seed), stream)
        found = audit(planted, stream, seed=seed).findings["raw"]
        for name in seen:
            seen[name] += found[name].verdict == LEAK
    assert set(seen.values()) == {20}
    assert taken <= 0.03 * total  # intervals of 99 %, of which one side is a leak
    assert np.mean(values) == pytest.approx(0.5, abs=0.01)


def test_a_model_that_learned_by_heart_is_found(stream):
    rng = np.random.default_rng(0)
    graph = Graph([[], []], rng.standard_normal((400, 60)), rng.integers(2, size=400))  # labels that cannot be learned
    random = TaskStream(graph)
    finding = found(FineTune(epochs=400, lr=0.05, hidden=64), random, "model", "membership_auc")
    assert finding.measure.value > 0.8 and finding.verdict == LEAK


def test_the_private_learner_shows_its_account_and_no_leak(stream):
    report = audit(learned(Private(features=16, epsilon=1.0), stream), stream)
    assert set(report.findings) == {"model"}
    assert report.summary.startswith("no leak found by these attacks")
    assert report.privacy is not None and report.privacy["guarantee"] == "(1, 1e-05)-differential privacy of nodes"
    assert "keeps no memory rows" in report.notes[0]


def test_the_document_has_every_measure_with_interval_and_control(stream):
    document = json.loads(json.dumps(audit(learned(DeLoMe(budget=8, epochs=1), stream), stream).as_dict()))
    for where in ("raw", "propagated"):
        for name in ("reidentified", "membership_auc", "tpr_at_1pct_fpr", "closer_to_training"):
            each = document[where][name]
            assert each["interval"][0] <= each["value"] <= each["interval"][1]
            assert each.keys() >= {"control", "count", "planted", "power", "noise", "verdict"}
    assert {"membership_auc", "tpr_at_1pct_fpr", "link_auc"} <= document["model"].keys()
    assert (document["memory_rows"], document["training_nodes"], document["held_out_nodes"]) == (32, 480, 320)


def test_every_attack_is_tried_on_ten_planted_leaks(stream):
    findings = audit(learned(ERGNN(budget=8, epochs=1), stream), stream).findings
    planted = [each.planted for found in findings.values() for each in found.values()]
    assert len(planted) > 15 and {len(each) for each in planted} == {10}
    areas = [each.value for each in findings["raw"]["membership_auc"].planted]
    assert len({*areas}) == 10  # of other nodes every time


def test_words_are_recovered_from_rows_that_are_nodes(sparse_stream):
    finding = found(Replay(memory="raw", budget=10, epochs=1), sparse_stream, "raw", "words_f1")
    assert np.mean([each.value for each in finding.planted]) == pytest.approx(finding.measure.value, abs=0.2)
    assert finding.noise.value < 0.2 < finding.measure.control < finding.measure.value


def test_in_the_task_incremental_setting_answers_are_those_within_the_task(stream):
    report = audit(learned(Joint(setting="til", epochs=3), stream), stream)
    assert set(report.findings["model"]) >= {"membership_auc", "link_auc"}
    assert "reads all earlier graphs" in report.notes[1]


def test_live_data_is_audited_by_its_mask(toy_graph):
    mask = np.arange(240) % 2 == 0
    graph = Graph(toy_graph.adjacency.nonzero()[::-1], toy_graph.features, toy_graph.labels, train_mask=mask)
    learner = Replay(memory="raw", budget=9, epochs=1)
    learner.observe(graph)
    report = audit(learner, graph)
    assert (report.training_nodes, report.held_out_nodes) == (120, 120)
    assert report.findings["raw"]["reidentified"].measure.value == 1.0
    with pytest.raises(ParameterError, match="give a graph with a train_mask"):
        audit(learner, toy_graph)


def test_what_cannot_be_audited_is_refused(stream):
    with pytest.raises(StateError, match="nothing was learned yet"):
        audit(FineTune(), stream)
    with pytest.raises(ParameterError, match="an audit needs the tasks"):
        audit(learned(FineTune(epochs=1), stream), [])
    with pytest.raises(ParameterError, match="an audit needs the tasks"):
        audit(learned(FineTune(epochs=1), stream), 3)


HIGH, CHANCE, FULL = Measure(0.9, 0.8, 1, 0.5, 9), Measure(0.5, 0.4, 0.6, 0.5, 9), Measure(1, 1, 1, 1, 9)


@pytest.mark.parametrize(
    ("measure", "planted", "noise", "power", "verdict"),
    [
        (HIGH, [HIGH], CHANCE, 1.0, LEAK),
        (HIGH, [CHANCE], CHANCE, 0.0, LEAK),
        (CHANCE, [HIGH], CHANCE, 1.0, NO_LEAK),
        (CHANCE, [CHANCE], CHANCE, 0.0, BLIND),
        (CHANCE, [], CHANCE, 0.0, BLIND),
        (HIGH, [HIGH], HIGH, 1.0, BLIND),
        (CHANCE, [HIGH] * 4 + [CHANCE], CHANCE, 0.8, NO_LEAK),
        (CHANCE, [HIGH] * 3 + [CHANCE], CHANCE, 0.75, BLIND),
        (FULL, [HIGH], CHANCE, 0.0, BLIND),  # above a control of 1 there is nothing
    ],
)
def test_nothing_is_concluded_where_nothing_could_be_seen(measure, planted, noise, power, verdict):
    finding = Finding(measure, planted, noise)
    assert (finding.power, finding.verdict) == (power, verdict)
    assert finding.as_dict()["power"] == power
    assert "private" not in verdict


def test_a_few_copies_among_many_nodes_are_too_few_for_the_area_and_that_is_said():
    # 4 of 600 members are given away: the area grows by 4 / 1200, far less than its interval
    stream = TaskStream(load_graph("synthetic", nodes=2000, classes=2, features=24, degree=4, noise=1.0))
    verdicts, powers = [], []
    for seed in range(5):
        report = audit(learned(Replay(memory="raw", budget=4, epochs=1, seed=seed), stream), stream, seed=seed)
        found = report.findings["raw"]
        assert found["exact_copies"].verdict == LEAK
        assert found["exact_copies"].power == 1.0
        verdicts.append(found["membership_auc"].verdict)
        powers.append(found["membership_auc"].power)
    assert NO_LEAK not in verdicts and max(powers) < 0.8


def test_a_private_memory_shows_what_its_guarantee_covers(stream):
    memory = {"memory": "private-moments", "budget": 5, "epochs": 1}
    kinds = DeLoMe(**memory), CaT(**memory), Private(features=8)
    accounts = [audit(learned(learner, stream), stream).privacy or {} for learner in kinds]
    assert [each["guarantee"] for each in accounts] == ["(4, 1e-05)-differential privacy of nodes"] * 3
    assert [len(each["releases"]) for each in accounts] == [2, 2, 2]
    assert [each["covers"] for each in accounts] == [
        "memory rows only: the network was trained on nodes, too",
        *["everything that was learned"] * 2,
    ]
    assert audit(learned(DeLoMe(budget=5, epochs=1), stream), stream).privacy is None
