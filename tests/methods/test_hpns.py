import copy

import numpy as np
import pytest
import torch
from torch.nn import functional

from delome import Graph, TaskStream, load_graph
from delome.errors import ParameterError, StateError
from delome.graph.rows import Rows
from delome.learning.training import Schedule
from delome.memories.prototypes import PrototypeTable, normalise
from delome.methods.hpns import HPNs, walk

SMALL = {"epochs": 12, "batch_size": 20, "neighbours_first": 2, "neighbours_second": 3, "dimension": 8}


def observe_all(learner, stream):
    for task in stream:
        learner.observe(task)
    return learner


def prototypes(learner):
    return {level: len(table) for level, table in learner.tables.items()}


def assert_same_state(a, b):
    assert a.values == b.values
    assert a.tensors.keys() == b.tensors.keys()
    for name, tensor in a.tensors.items():
        assert torch.equal(tensor, b.tensors[name]), name


@pytest.fixture
def ring():
    """20 nodes in a circle, and one without edges."""
    step = np.arange(20)
    return Graph([step, (step + 1) % 20], np.eye(21), [0] * 21, undirected=True)


def test_walks_of_one_step_end_at_neighbours(ring):
    starts = np.arange(20)[:, None]
    ends = walk(ring.adjacency, starts, np.random.default_rng(0).random((20, 50, 1)))
    assert set(np.unique((ends - starts) % 20)) == {1, 19}


def test_walks_of_two_steps_end_two_steps_away(ring):
    starts = np.arange(20)[:, None]
    ends = walk(ring.adjacency, starts, np.random.default_rng(0).random((20, 50, 2)))
    assert set(np.unique((ends - starts) % 20)) == {0, 2, 18}


def test_each_neighbour_is_drawn_equally_often():
    star = Graph([np.arange(1, 5), np.zeros(4, int)], np.ones((5, 1)))
    ends = walk(star.adjacency, np.zeros(4000, int), np.random.default_rng(0).random((4000, 1)))
    np.testing.assert_allclose(np.bincount(ends) / 4000, [0, 0.25, 0.25, 0.25, 0.25], atol=0.03)


def test_every_random_weight_depends_on_the_seed(toy_stream):
    first, second = (HPNs(**SMALL | {"epochs": 1}, seed=seed) for seed in (0, 1))
    for learner in (first, second):
        learner.observe(toy_stream[0])
    pairs = [(first.attention, second.attention)]
    for kind, made in first.extractors.items():
        pairs += [(one.value, two.value) for one, two in zip(made, second.extractors[kind], strict=True)]
    assert len(pairs) > 2
    for one, two in pairs:
        assert not torch.isclose(one, two, atol=1e-3).all()


def test_shuffles_are_those_of_the_learners_seed(toy_stream, monkeypatch):
    seen = []

    def recorded(batch_size, seed, task):
        seen.append((batch_size, seed, task))
        return Schedule(batch_size, seed, task)

    monkeypatch.setattr("delome.methods.hpns.Schedule", recorded)
    HPNs(**SMALL | {"epochs": 1}, seed=5).observe(toy_stream[0])
    assert seen == [(20, 5, 0)]


def test_sampled_neighbours_are_one_and_two_steps_away(ring):
    learner = HPNs(neighbours_first=3, neighbours_second=4)
    nodes = np.array([5, 20])
    sampled = learner._neighbours(ring, nodes, learner._draws(2, np.random.default_rng(0)))
    assert sampled.shape == (2, 7)
    assert set(sampled[0, :3]) <= {4, 6}
    assert set(sampled[0, 3:]) <= {3, 5, 7}


def test_a_node_without_neighbours_uses_itself(ring):
    learner = HPNs(neighbours_first=3, neighbours_second=4)
    sampled = learner._neighbours(ring, np.array([20]), learner._draws(1, np.random.default_rng(0)))
    assert sampled.tolist() == [[20] * 7]
    edgeless = Graph([], np.eye(3))
    assert walk(edgeless.adjacency, np.arange(3), np.full((3, 2), 0.5)).tolist() == [0, 1, 2]


def test_slots_are_the_normalised_features_of_node_and_neighbours(toy_stream):
    learner = HPNs(**SMALL, attribute_extractors=2, relation_extractors=2)
    learner.observe(toy_stream[0])
    graph = toy_stream[0].graph
    rows = torch.from_numpy(graph.features)
    extractors = learner._extractors_of(0)
    neighbours = np.array([[1, 2, 3, 4, 5], [6, 7, 8, 9, 9]])
    slots = [
        [rows[node] @ each.value for each in extractors[:2]]
        + [rows[other] @ each.value for each in extractors[2:] for other in others]
        for node, others in zip((0, 10), neighbours.tolist(), strict=True)
    ]
    expected = torch.stack([torch.stack(each) for each in slots])
    expected = expected / expected.norm(dim=2, keepdim=True)
    got = learner._embed(Rows.of(graph.features, torch.device("cpu")), np.array([0, 10]), neighbours, extractors)
    assert got.shape == (2, learner.slots, 8)
    torch.testing.assert_close(got, expected)


def test_weights_start_uniform_within_one_over_root_fan_in(toy_stream):
    learner = HPNs(**SMALL, lr=1e-12)
    learner.observe(toy_stream[0])
    slots = 1 + 2 * 5
    inputs = {"embeddings": 8 * slots, "nodes": 8 * (slots + 1), "classes": 8 * (slots + 2)}
    drawn = {f"head.{name}": (fan_in, 2) for name, fan_in in inputs.items()}
    # an extractor has no bias
    drawn |= {"attribute.0": (16 - 1, 8), "relation.0": (16 - 1, 8), "relation.1": (16 - 1, 8)}
    tensors = learner.state().tensors | {"attention": learner.attention}
    for name, (rows, columns) in (drawn | {"attention": (8 * slots, slots)}).items():
        assert tensors[name].shape == (rows + 1, columns)
        fan_in = 16 if name not in ("attention", *(f"head.{each}" for each in inputs)) else rows
        assert 0.95 * fan_in**-0.5 < tensors[name].abs().max() <= fan_in**-0.5
        assert (tensors[name] < 0).any() and (tensors[name] > 0).any()


def test_the_first_prototype_of_each_level_is_a_random_direction_of_its_own(toy_stream):
    learners = [HPNs(**SMALL, lr=1e-12, seed=seed) for seed in (0, 1)]
    for learner in learners:
        learner.observe(toy_stream[0])
    rows = [learner.tables[level].rows.value[:1] for learner in learners for level in ("atomic", "node", "class")]
    assert all(row.shape == (1, 8) and (row > 0).all() and (row < 0.5).all() for row in rows)
    assert len({tuple(row.flatten().tolist()) for row in rows}) == 6


def test_class_incremental_learning_is_refused():
    with pytest.raises(ParameterError, match="HPNs does not work in setting 'cil': use til"):
        HPNs(setting="cil")


def test_a_pool_too_small_for_one_task_is_refused():
    with pytest.raises(ParameterError, match="pool must be at least"):
        HPNs(pool=1)


def test_the_tasks_of_a_stream_are_learned_and_not_forgotten(toy_stream):
    learner = HPNs(epochs=40)
    after = []
    for task in toy_stream:
        learner.observe(task)
        after += learner.evaluate([task])
    assert min(after) > 85
    assert np.mean(learner.evaluate(toy_stream)) > np.mean(after) - 10


def test_a_few_epochs_are_enough_for_digits():
    stream = TaskStream(load_graph("digits"))
    learner = HPNs(epochs=10)
    learner.observe(stream[0])
    assert learner.evaluate([stream[0]])[0] > 90


def test_no_prototype_is_made_beyond_the_largest_distance(toy_stream):
    learner = observe_all(HPNs(**SMALL, threshold=2.0, class_threshold=2.0), toy_stream)
    assert prototypes(learner) == {"atomic": 1, "node": 1, "class": 1}


def test_identical_nodes_make_at_most_one_atom_per_extractor():
    graph = Graph([np.arange(39), np.arange(1, 40)], np.ones((40, 5)), np.repeat([0, 1], 20), undirected=True)
    parameters = SMALL | {"epochs": 2, "batch_size": None}
    learner = HPNs(**parameters, establish_after=1, attribute_extractors=2, relation_extractors=3)
    learner.observe(TaskStream(graph)[0])
    assert 1 < prototypes(learner)["atomic"] <= 1 + 5


def test_atoms_of_a_plane_that_do_not_move_are_at_most_nine(toy_stream, monkeypatch):
    monkeypatch.setattr(PrototypeTable, "step", lambda *_: None)  # prototypes with step size 0
    learner = observe_all(HPNs(**(SMALL | {"dimension": 2}), relation_extractors=3), toy_stream)
    assert 3 < prototypes(learner)["atomic"] <= 1 + 9


def test_there_are_no_prototypes_before_the_first_half_of_the_epochs(toy_stream, monkeypatch):
    learner = HPNs(**SMALL, establish_after=100)
    steps = []
    monkeypatch.setattr(learner, "_step", lambda *_, establish: steps.append(establish))
    learner.observe(toy_stream[0])
    assert steps == [False] * 18 + [True] * 18  # 48 nodes in batches of 20, 12 epochs


def test_the_step_size_falls_for_each_task_anew_and_never_for_prototypes(toy_stream, monkeypatch):
    sizes: dict[str, list[float]] = {"trained": [], "tables": []}
    table_step = PrototypeTable.step

    def step(self, gradient, lr, matched):
        sizes["tables"].append(lr)
        table_step(self, gradient, lr, matched)

    def noted(head_step):
        def step(gradient, lr):
            sizes["trained"].append(lr)
            head_step(gradient, lr)

        return step

    monkeypatch.setattr(PrototypeTable, "step", step)
    learner = HPNs(**(SMALL | {"epochs": 2, "batch_size": None}), lr=0.5)
    for task in list(toy_stream)[:2]:
        learner.observe(task)
        head = learner.heads["embeddings"]
        monkeypatch.setattr(head, "step", noted(head.step))
    assert sizes["trained"] == [0.5, 0.005]
    assert set(sizes["tables"]) == {0.5}


def test_extractors_of_other_tasks_keep_their_bits(toy_stream):
    learner = HPNs(**SMALL)
    for task in toy_stream:
        before = copy.deepcopy(learner.extractors)
        learner.observe(task)
        for kind, extractors in before.items():
            assert len(learner.extractors[kind]) > len(extractors)
            for old, new in zip(extractors, learner.extractors[kind], strict=False):
                assert torch.equal(old.value, new.value)
                assert torch.equal(old.momentum, new.momentum)


def test_every_task_has_extractors_of_its_own_while_the_pool_lasts(toy_stream):
    learner = observe_all(HPNs(**SMALL, pool=6), toy_stream)
    unlimited = observe_all(HPNs(**SMALL), toy_stream)
    assert unlimited.extractors_of_tasks == learner.extractors_of_tasks
    assert learner.extractors_of_tasks == [
        {"attribute": [task], "relation": [2 * task, 2 * task + 1]} for task in range(3)
    ]


def test_when_the_pool_is_used_up_the_extractors_that_fit_best_are_shared(toy_stream, monkeypatch):
    learner = HPNs(**SMALL, pool=3)
    learner.observe(toy_stream[0])
    learner.observe(toy_stream[1])
    assert learner.extractors_of_tasks[1]["relation"][0] == 2
    assert learner.extractors_of_tasks[1]["relation"][1] in (0, 1)
    fits = {0: 0.1, 1: 0.5, 2: 0.3}
    monkeypatch.setattr(learner, "_fit", lambda _, nodes, made: torch.tensor([fits[k] for k in range(len(made))]))
    learner.observe(toy_stream[2])
    assert learner.extractors_of_tasks[2] == {"attribute": [2], "relation": [1, 2]}


def test_the_fit_of_an_extractor_is_its_mean_cosine_with_prototypes(toy_stream):
    learner = HPNs(**SMALL)
    learner.observe(toy_stream[0])
    features = torch.from_numpy(toy_stream[0].graph.features)
    rows = Rows.of(toy_stream[0].graph.features, torch.device("cpu"))
    atoms = torch.nn.functional.normalize(learner.tables["atomic"].rows.value.detach())
    made = learner.extractors["relation"]
    embedded = [torch.nn.functional.normalize(features[[3, 4]] @ each.value.detach()) for each in made]
    expected = torch.stack([(rows @ atoms.T).amax(dim=1).mean() for rows in embedded])
    torch.testing.assert_close(learner._fit(rows, np.array([3, 4]), made), expected)


def test_the_same_seed_gives_the_same_bits_and_another_seed_others(toy_stream):
    first, again, other = (observe_all(HPNs(**SMALL, seed=seed), toy_stream).state() for seed in (3, 3, 4))
    assert_same_state(first, again)
    assert not torch.equal(first.tensors["head.classes"], other.tensors["head.classes"])


def test_learning_continues_from_a_state_bit_by_bit(toy_stream):
    whole = HPNs(**SMALL, pool=3)
    whole.observe(toy_stream[0])
    resumed = HPNs(**SMALL, pool=3)
    resumed.load_state(whole.state())
    for task in list(toy_stream)[1:]:
        whole.observe(task)
        resumed.observe(task)
        assert_same_state(whole.state(), resumed.state())
    for task in toy_stream:
        nodes = np.arange(task.graph.num_nodes)
        assert torch.equal(*(each.logits((task.graph, nodes), task.index) for each in (whole, resumed)))


def test_a_state_of_other_parameters_is_refused(toy_stream):
    learner = HPNs(**SMALL)
    learner.observe(toy_stream[0])
    with pytest.raises(StateError, match=r"'prototypes.atomic' is .* of shape \(\d+, 8\), not .* of shape \(\d+, 4\)"):
        HPNs(**(SMALL | {"dimension": 4})).load_state(learner.state())
    with pytest.raises(StateError, match=r"'head.embeddings' is .* of shape"):
        HPNs(**(SMALL | {"neighbours_first": 1})).load_state(learner.state())


def test_a_prediction_does_not_depend_on_which_other_nodes_are_asked_for(toy_stream, monkeypatch):
    monkeypatch.setattr("delome.methods.hpns.NODES_AT_ONCE", 32)
    learner = HPNs(**SMALL)
    learner.observe(toy_stream[0])
    graph = toy_stream[0].graph
    every = learner.logits((graph, np.arange(graph.num_nodes)), 0)
    some = np.array([70, 3, 40, 3])
    torch.testing.assert_close(learner.logits((graph, some), 0), every[some])


def test_scores_are_in_the_columns_of_the_task(toy_stream):
    learner = observe_all(HPNs(**SMALL), toy_stream)
    scores = learner.logits((toy_stream[1].graph, np.arange(5)), 1)
    assert scores.shape == (5, 6)
    assert (scores[:, 2:4] != 0).all()
    assert not scores[:, [0, 1, 4, 5]].any()


def test_heads_widen_with_the_classes_of_a_task_and_keep_what_they_have():
    learner = HPNs(**SMALL)
    learner._widen_heads(2)
    before = {name: head.value.detach().clone() for name, head in learner.heads.items()}
    learner._widen_heads(1)
    learner._widen_heads(3)
    for name, head in learner.heads.items():
        assert head.value.shape[1] == 3
        assert torch.equal(head.value[:, :2], before[name])


def test_neighbours_can_be_switched_off(toy_stream):
    learner = HPNs(epochs=30, neighbours_first=0, neighbours_second=0, pool=2)
    observe_all(learner, toy_stream)
    assert learner.slots == 1
    assert learner.evaluate([toy_stream[2]])[0] > 85


def test_prototypes_and_extractors_are_what_is_stored(toy_stream):
    learner = observe_all(HPNs(**SMALL), toy_stream)
    count = sum(prototypes(learner).values())
    # 3 tasks with 3 extractors of 16 by 8 each
    assert learner.storage().floats == 8 * count + 3 * 3 * 16 * 8
    assert learner.storage().bytes == 4 * learner.storage().floats
    assert sum(number for (number,) in learner.report().values()) == count


def test_loss_and_levels_equal_the_formulas(toy_stream):
    learner = observe_all(HPNs(**SMALL), list(toy_stream)[:1])
    task, labels = 0, torch.tensor([0, 1, 1])
    generator = torch.Generator().manual_seed(0)
    embeddings = normalise(torch.randn(3, learner.slots, learner.dimension, generator=generator))

    def unit(level, index):
        row = learner.tables[level].rows.value[index].detach()
        return row / row.norm()

    def nearest(level, query):
        rows = learner.tables[level].rows.value.detach()
        return unit(level, int((rows / rows.norm(dim=1, keepdim=True) @ query).argmax()))

    def head(name, *inputs):
        values = torch.cat([each.flatten() for each in inputs])
        weights = learner.heads[name].value.detach()
        return (values @ weights[:-1] + weights[-1])[:2]

    expected, by_embedding = torch.tensor(0.0), torch.tensor(0.0)
    for e, label in zip(embeddings, labels, strict=True):
        atomic = torch.stack([nearest("atomic", slot) for slot in e])
        weights = atomic.flatten() @ learner.attention[:-1] + learner.attention[-1]
        combined = (weights[:, None] * atomic).sum(dim=0)
        node = nearest("node", combined / combined.norm())
        class_ = nearest("class", node)
        target = label[None]
        first = functional.cross_entropy(head("embeddings", e)[None], target)
        second = functional.cross_entropy(head("nodes", atomic, node)[None], target)
        third = functional.cross_entropy(head("classes", atomic, node, class_)[None], target)
        expected += (first + 10 * third + second + (atomic - e).square().mean()) / 3
        by_embedding += first / 3
    _, found = learner._match(embeddings, establish=False)
    torch.testing.assert_close(learner._loss(task, embeddings, labels, found), expected)
    torch.testing.assert_close(learner._loss(task, embeddings, labels, None), by_embedding)
