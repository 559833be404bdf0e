import numpy as np

from delome import Graph
from delome.memories import Memory
from delome.memories.memory import counts_of


def rows_of(*labels, task=3, **more):
    """Rows whose only feature is their number."""
    features = np.arange(len(labels), dtype=np.float32)[:, None]
    memory = Memory.of_rows(task, features, np.array(labels), {"loss": [0.5]})
    return Memory(task, memory.graph, memory.rows, memory.labels, memory.report, **more)


def path_memory():
    """0 – 1 – 2 – 3, of which 1 and 3 carry loss."""
    graph = Graph([[0, 1, 2], [1, 2, 3]], np.arange(4.0)[:, None], undirected=True)
    return Memory(1, graph, np.array([1, 3]), np.array([5, 7]))


def test_rows_stand_for_themselves_unless_it_is_said():
    assert rows_of(4, 2, 4).stands_for == {2: 1, 4: 2}
    assert rows_of(4, 2, 4, stands_for={2: 10, 4: 99}).stands_for == {2: 10, 4: 99}
    assert counts_of(np.array([], dtype=int)) == {}


def test_rows_without_edges_all_carry_loss():
    memory = rows_of(4, 2, 4)
    assert memory.rows.tolist() == [0, 1, 2] and memory.graph.num_edges == 0
    assert memory.graph.propagate(2).ravel().tolist() == [0, 1, 2], "they are read as they are"


def test_of_rows_without_edges_those_that_are_not_selected_are_gone():
    memory = rows_of(4, 2, 4, 9, stands_for={2: 10, 4: 99, 9: 1}).select(np.array([2, 1]))
    assert memory.graph.features.ravel().tolist() == [2, 1]
    assert (memory.rows.tolist(), memory.labels.tolist()) == ([0, 1], [4, 2])
    assert (memory.task, memory.stands_for, memory.report) == (3, {2: 10, 4: 99}, {"loss": [0.5]})


def test_of_a_subgraph_nodes_stay_that_a_selected_row_may_hear():
    whole = path_memory()
    memory = whole.select(np.array([1]))
    assert memory.graph is whole.graph
    assert (memory.rows.tolist(), memory.labels.tolist(), memory.stands_for) == ([3], [7], {7: 1})


def test_a_union_of_rows_and_subgraphs_has_the_edges_of_its_parts():
    joined = Memory.join([path_memory(), rows_of(5, 5)])
    assert (joined.task, joined.graph.num_nodes, joined.graph.num_edges) == (1, 6, 6)
    assert (joined.rows.tolist(), joined.labels.tolist()) == ([1, 3, 4, 5], [5, 7, 5, 5])
    assert joined.stands_for == {5: 3, 7: 1}
    assert np.argwhere(joined.graph.adjacency.toarray()).max() == 3


def test_a_union_is_of_the_task_of_its_first_part_and_keeps_the_others_apart():
    union = Memory.join([path_memory(), rows_of(4, 2)])
    assert (union.task, union.rows.tolist(), union.labels.tolist()) == (1, [1, 3, 4, 5], [5, 7, 4, 2])
    assert union.graph.num_edges == path_memory().graph.num_edges
    assert Memory.join([rows_of(4, 2), path_memory()]).task == 3
