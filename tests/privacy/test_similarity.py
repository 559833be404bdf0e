import numpy as np
import pytest
import scipy.sparse as sp

from delome.privacy import similarity
from delome.privacy.similarity import nearest, unit


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("chunk", [3, 100])
def test_nearest_nodes_by_comparing_all(sparse, chunk, monkeypatch):
    monkeypatch.setattr(similarity, "CHUNK_ROWS", chunk)
    rng = np.random.default_rng(0)
    memory, nodes = (rng.random((count, 6)).astype(np.float32) for count in (5, 11))
    cosines = np.array([[m @ n / np.linalg.norm(m) / np.linalg.norm(n) for n in nodes] for m in memory])
    found = nearest(*(sp.csr_array(rows) if sparse else rows for rows in (memory, nodes)))
    np.testing.assert_allclose(found.first, cosines.max(axis=1), rtol=1e-5)
    np.testing.assert_allclose(found.second, np.sort(cosines)[:, -2], rtol=1e-5)
    assert found.node.tolist() == cosines.argmax(axis=1).tolist()
    np.testing.assert_allclose(found.of_nodes, cosines.max(axis=0), rtol=1e-5)


def test_of_a_single_node_there_is_no_second():
    found = nearest(np.eye(2, dtype=np.float32), np.array([[3.0, 0.0]], dtype=np.float32))
    assert found.first.tolist() == [1.0, 0.0] and found.second.tolist() == [-1.0, -1.0]


def test_rows_of_zeros_have_no_direction():
    rows = np.array([[0.0, 0.0], [3.0, 4.0]], dtype=np.float32)
    np.testing.assert_allclose(unit(rows), np.array([[0, 0], [0.6, 0.8]]), rtol=1e-6)
    np.testing.assert_allclose(unit(sp.csr_array(rows)).toarray(), np.array([[0, 0], [0.6, 0.8]]), rtol=1e-6)
