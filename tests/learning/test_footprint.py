import numpy as np
import scipy.sparse as sp

from delome import Graph, Joint, TaskStream
from delome.learning.footprint import Footprint
from delome.streams.tasks import Observation


def observed(graph, index=0):
    return Observation(index, (0,), 1, np.array([0]), np.array([0]), graph.num_features, graph)


def test_the_nodes_values_and_bytes_of_graphs_add_up():
    small = Graph([[0, 1], [1, 2]], np.ones((3, 4)))
    large = Graph([[0], [1]], np.ones((5, 2)))
    found = Footprint.of_graphs([observed(small), observed(large, 1)])
    assert found == Footprint(3 + 5, 3 * 4 + 5 * 2, small.nbytes + large.nbytes)


def test_of_sparse_features_the_values_that_are_there_count():
    graph = Graph([[0], [1]], sp.csr_array(np.eye(3, 50)))
    assert Footprint.of_graphs([observed(graph)]).floats == 3


def test_a_shared_graph_is_counted_once():
    graph = Graph([[0], [1]], np.ones((5, 2)))
    shared = [observed(graph), observed(graph.hidden(), 1)]
    assert Footprint.of_graphs(shared) == Footprint.of_graphs(shared[:1])
    assert Footprint.of_graphs([]) == Footprint() == Footprint(rows=0, floats=0, bytes=0)


def test_what_joint_keeps_are_all_graphs_so_far(toy_graph):
    for edges_between in (False, True):
        stream, learner = TaskStream(toy_graph, inter_task_edges=edges_between), Joint(epochs=1, hidden=4)
        kept = []
        for task in stream:
            learner.observe(task)
            kept.append(learner.storage())
        # with edges between tasks all of them live in the one graph that has grown so far
        assert [each.rows for each in kept] == [80, 160, 240]
        assert [each.floats for each in kept] == [16 * each.rows for each in kept]
        graphs = [stream[-1].graph] if edges_between else [task.graph for task in stream]
        assert kept[-1].bytes == sum(graph.with_labels(None).nbytes for graph in graphs)
