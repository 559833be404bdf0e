import numpy as np

from delome import FineTune, Graph
from delome.privacy.model_audit import Scores, confidence, links
from delome.privacy.subject import Audited


def learned():
    rng = np.random.default_rng(0)
    features = rng.standard_normal((8, 5))
    labels = np.repeat([0, 1], 4)
    graph = Graph([[0, 1, 0, 6], [1, 2, 4, 7]], features, labels)
    learner = FineTune(epochs=3, hidden=4)
    learner.observe(graph)
    return learner, Audited(0, graph, np.arange(7), np.array([7]), labels, np.arange(8))


def test_confidence_is_the_log_odds_of_the_true_class():
    learner, each = learned()
    chances = learner.predict_proba(each.graph)[np.arange(8), each.labels]
    np.testing.assert_allclose(confidence(learner, each), np.log(chances / (1 - chances)), rtol=1e-4)


def test_links_are_pairs_of_training_nodes_of_one_class():
    # linked are 0-1 and 1-2; 0-4 is between classes, and 7 was not trained on
    learner, each = learned()
    answers, features = links(learner, [each], np.random.default_rng(0))
    assert len(answers.members) == len(features.members) == 2
    bare = learner.predict_proba(Graph.edgeless(each.graph.features))
    expected = {round(-np.abs(bare[a] - bare[b]).sum(), 5) for a, b in ((0, 1), (1, 2))}
    assert {round(score, 5) for score in answers.members.tolist()} == expected
    rows = each.graph.features / np.linalg.norm(each.graph.features, axis=1, keepdims=True)
    apart = {round(float(rows[a] @ rows[b]), 4) for a, b in ((0, 2), (0, 3), (1, 3), (2, 3), (4, 5), (4, 6), (5, 6))}
    assert {round(score, 4) for score in features.others.tolist()} <= apart


def test_a_planted_leak_gives_a_tenth_away_and_noise_mixes():
    scores = Scores(np.arange(20.0), np.arange(30.0))
    planted, mixed = scores.planted(np.random.default_rng(0)), scores.noise(np.random.default_rng(0))
    assert (planted.members > 29).sum() == 2
    assert sorted([*mixed.members, *mixed.others]) == sorted([*range(20), *range(30)])
    assert (len(mixed.members), len(mixed.others)) == (20, 30)
