import numpy as np
import scipy.sparse as sp

from delome.release.rows import CHUNK_ROWS, projection, unit_rows


def test_rows_are_directions_and_never_longer_than_one():
    rng = np.random.default_rng(0)
    features = rng.standard_normal((CHUNK_ROWS + 50, 4)) * rng.choice([1e-30, 1.0, 1e30], size=(CHUNK_ROWS + 50, 1))
    rows = unit_rows(features.astype(np.float32))
    lengths = np.linalg.norm(rows.astype(np.float64), axis=1)
    assert lengths.max() <= 1 and lengths.min() > 0.99999
    np.testing.assert_allclose(rows[0], features[0] / np.linalg.norm(features[0]), rtol=1e-5)


def test_zeros_stay_zeros():
    assert unit_rows(np.zeros((2, 3), np.float32)).tolist() == [[0.0] * 3] * 2


def test_sparse_rows_are_projected_like_dense_ones():
    dense = np.array([[3.0, 0.0, 4.0], [0.0, 0.0, 2.0]], dtype=np.float32)
    matrix = projection(0, 3, 2)
    expected = dense @ matrix
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    for features in (dense, sp.csr_array(dense)):
        np.testing.assert_allclose(unit_rows(features, matrix), expected, rtol=1e-5)
    np.testing.assert_allclose(unit_rows(sp.csr_array(dense)), np.array([[0.6, 0, 0.8], [0, 0, 1]]), rtol=1e-5)


def test_the_projection_is_that_of_the_seed():
    assert np.array_equal(projection(1, 5, 3), projection(1, 5, 3))
    assert not np.array_equal(projection(1, 5, 3), projection(2, 5, 3))
