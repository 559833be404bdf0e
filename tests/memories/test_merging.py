import numpy as np
import pytest
import scipy.sparse as sp

from delome import Graph
from delome.graph.sparse import to_dense
from delome.memories import Memory, MemoryBank, Subgraphs
from delome.memories.merging import Earlier, merge, share_of_new, take_out, with_counts


def thin(memory, positions, rng):
    return memory.select(positions)


def memory_of(task, **counts):
    """A memory of rows that say where they are from: (task, class, number); c3=(4, 100) are 4 rows for 100."""
    rows = [(task, int(name[1:]), number) for name, (size, _) in counts.items() for number in range(size)]
    features = np.array(rows, dtype=np.float32)
    stands_for = {int(name[1:]): count for name, (_, count) in counts.items()}
    return Memory.of_rows(task, features, features[:, 1].astype(np.int64), {"loss": [task]}), stands_for


def counted(*arguments, **counts):
    memory, stands_for = memory_of(*arguments, **counts)
    return Memory(memory.task, memory.graph, memory.rows, memory.labels, memory.report, stands_for)


def sizes(bank):
    return [np.bincount(memory.labels, minlength=4).tolist() for memory in bank.memories]


def test_classes_that_come_again_move_into_the_new_memory():
    bank = MemoryBank([counted(0, c0=(4, 100), c1=(4, 4)), counted(1, c2=(4, 50))])
    merged = merge(bank, counted(2, c1=(4, 4), c3=(2, 2)), 4, thin, np.random.default_rng(0))
    assert [memory.task for memory in merged.memories] == [0, 1, 2]
    assert sizes(merged) == [[4, 0, 0, 0], [0, 0, 4, 0], [0, 4, 0, 2]]
    assert merged.memories[0].stands_for == {0: 100}
    assert merged.memories[1] is bank.memories[1]
    newest = merged.memories[2]
    assert newest.stands_for == {1: 8, 3: 2} and newest.report == {"loss": [2]}
    # half of the rows of class 1 are old: both stand for as many
    of_class = newest.graph.features[newest.rows[newest.labels == 1]]
    assert np.bincount(of_class[:, 0].astype(int)).tolist() == [2, 0, 2]
    assert (of_class[:, 1] == 1).all() and len(np.unique(of_class, axis=0)) == 4


def test_memories_that_nothing_is_left_of_vanish():
    bank = MemoryBank([counted(0, c0=(3, 9)), counted(1, c1=(3, 9))])
    merged = merge(bank, counted(2, c0=(3, 9)), 3, thin, np.random.default_rng(0))
    assert [memory.task for memory in merged.memories] == [1, 2]
    assert sizes(merged) == [[0, 3, 0, 0], [3, 0, 0, 0]]


def test_rows_that_fit_are_all_kept():
    merged = merge(MemoryBank([counted(0, c0=(2, 2))]), counted(1, c0=(3, 3)), 8, thin, np.random.default_rng(0))
    assert sizes(merged) == [[5, 0, 0, 0]]


@pytest.mark.parametrize("seed", range(10))
def test_no_row_is_kept_twice(seed):
    bank = MemoryBank([counted(0, c0=(6, 60))])
    (merged,) = merge(bank, counted(1, c0=(6, 60)), 8, thin, np.random.default_rng(seed)).memories
    assert len(np.unique(merged.graph.features, axis=0)) == len(merged.labels) == 8


def test_the_first_memory_is_taken_as_it_is():
    fresh = counted(0, c0=(2, 2))
    assert merge(MemoryBank(), fresh, 8, thin, np.random.default_rng(0)).memories[0].graph is fresh.graph


@pytest.mark.parametrize(
    ("rows", "counts", "budget", "mean"),
    [((10, 10), (100, 300), 10, 7.5), ((10, 2), (10, 2), 10, 10 * 2 / 12), ((10, 10), (10**12, 10**6), 10, 1e-5)],
)
def test_shares_are_in_proportion_to_the_rows_that_are_stood_for(rows, counts, budget, mean):
    rng = np.random.default_rng(0)
    shares = [share_of_new(rows, counts, budget, rng) for _ in range(2000)]
    assert np.mean(shares) == pytest.approx(mean, abs=0.05)
    assert set(shares) <= {int(mean), int(mean) + 1}


def test_no_more_rows_are_kept_than_there_are():
    rng = np.random.default_rng(0)
    assert {share_of_new((1, 9), (1, 10**9), 10, rng) for _ in range(50)} == {9}
    assert {share_of_new((9, 1), (1, 10**9), 10, rng) for _ in range(50)} == {1}


def test_a_sample_of_rows_stays_one_of_all_rows_so_far():
    # after ten days each day has a tenth of the rows
    seen = np.zeros(10)
    for seed in range(300):
        rng, bank = np.random.default_rng(seed), MemoryBank()
        for day in range(10):
            bank = merge(bank, counted(day, c0=(10, 1000)), 10, thin, rng)
        (memory,) = bank.memories
        assert memory.stands_for == {0: 10_000}
        seen += np.bincount(memory.graph.features[:, 0].astype(int), minlength=10)
    np.testing.assert_allclose(seen / 300, 1, atol=0.2)


def test_sparse_and_dense_memories_are_joined():
    dense, sparse = counted(0, c0=(2, 2)), counted(1, c0=(2, 2))
    sparse = Memory.of_rows(1, sp.csr_array(sparse.graph.features), sparse.labels)
    for parts in ((dense, sparse), (sparse, dense), (sparse, sparse)):
        joined = Memory.join(parts)
        expected = np.concatenate([to_dense(part.graph.features) for part in parts])
        assert (to_dense(joined.graph.features) == expected).all()
        assert sp.issparse(joined.graph.features) == (parts == (sparse, sparse))


def star(task, centre_label):
    """A centre that hears seven others, which hear two more each."""
    edges = [(leaf, 0) for leaf in range(1, 8)] + [(7 + 2 * leaf - k, leaf) for leaf in range(1, 8) for k in range(2)]
    graph = Graph(np.array(edges).T, np.full((22, 1), task, dtype=np.float32), undirected=False)
    return Memory(task, graph, np.array([0, 1]), np.array([centre_label, centre_label + 1]))


def test_subgraphs_are_joined_without_edges_between_them():
    joined = Memory.join([star(0, 0), star(1, 2)])
    assert joined.rows.tolist() == [0, 1, 22, 23] and joined.labels.tolist() == [0, 1, 2, 3]
    assert joined.graph.num_edges == 2 * star(0, 0).graph.num_edges
    expected = np.concatenate([star(task, 0).graph.propagate(2) for task in (0, 1)])
    np.testing.assert_allclose(joined.graph.propagate(2), expected, rtol=1e-6)


def test_nodes_that_no_centre_needs_are_dropped():
    builder = Subgraphs(budget=1)
    thinned = builder.thin(star(0, 0), np.array([1]), np.random.default_rng(0))
    assert thinned.labels.tolist() == [1] and thinned.stands_for == {1: 1}
    assert thinned.graph.num_nodes == 3  # the leaf and the two that it hears
    assert np.diff(thinned.graph.adjacency.indptr)[thinned.rows[0]] == 2
    whole = builder.thin(star(0, 0), np.array([0]), np.random.default_rng(0))
    assert whole.graph.num_nodes == 11


def test_rows_are_taken_out_with_the_number_they_stand_for():
    bank = MemoryBank([counted(0, c0=(2, 100), c1=(3, 7)), counted(1, c2=(2, 5))])
    rest, taken = take_out(bank, (1, 2, 3))
    assert [memory.task for memory in rest.memories] == [0]
    assert sizes(rest) == [[2, 0, 0, 0]] and rest.memories[0].stands_for == {0: 100}
    assert {column: (len(earlier.rows), earlier.stands_for) for column, earlier in taken.items()} == {
        1: (3, 7), 2: (2, 5),
    }  # fmt: skip
    assert taken[1].weights(more=2).tolist() == [7 / 3] * 3 + [1, 1]


def test_a_memory_is_told_what_it_stands_for():
    memory = counted(1, c0=(2, 2), c1=(2, 2))
    labels = np.array([0] * 5 + [1] * 3)
    assert with_counts(memory, labels).stands_for == {0: 5, 1: 3}
    earlier = {1: Earlier(np.ones((2, 3)), 40)}
    assert with_counts(memory, labels, earlier).stands_for == {0: 5, 1: 43}
