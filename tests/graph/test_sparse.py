from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st

from delome.graph.sparse import SPARSE_BELOW, is_sparse_enough, take_columns, times, to_dense, torch_csr


def random_sparse(rng: np.random.Generator, rows: int, columns: int, density: float) -> sp.csr_array:
    values = rng.normal(size=(rows, columns)) * (rng.random((rows, columns)) < density)
    return sp.csr_array(values.astype(np.float32))


def with_entries(entries: int) -> sp.csr_array:
    """10 × 10 matrix with this many non-zeros."""
    values = np.zeros(100, dtype=np.float32)
    values[:entries] = 1
    return sp.csr_array(values.reshape(10, 10))


def test_an_array_is_its_own_dense_form() -> None:
    array = np.eye(2)
    assert to_dense(array) is array
    assert np.array_equal(to_dense(sp.csr_array(array)), array)


def test_sparse_pays_strictly_below_the_density_limit() -> None:
    at_the_limit = round(100 * SPARSE_BELOW)
    assert is_sparse_enough(with_entries(at_the_limit - 1))
    assert not is_sparse_enough(with_entries(at_the_limit))


@given(st.integers(0, 2**32), st.integers(1, 9), st.integers(1, 9), st.floats(0, 1), st.booleans())
def test_products_equal_numpys(seed: int, rows: int, columns: int, density: float, sparse: bool) -> None:
    rng = np.random.default_rng(seed)
    operator = random_sparse(rng, rows, 7, density)
    features = random_sparse(rng, 7, columns, density)
    product = times(operator, features if sparse else features.toarray())
    np.testing.assert_allclose(to_dense(product), operator.toarray() @ features.toarray(), rtol=1e-5, atol=1e-5)


def test_dense_features_give_a_dense_product() -> None:
    assert isinstance(times(sp.csr_array(sp.eye_array(50, dtype=np.float32)), np.eye(50, dtype=np.float32)), np.ndarray)


@pytest.mark.parametrize(("entries", "form"), [(11, sp.csr_array), (12, np.ndarray)])
def test_a_sparse_product_stays_sparse_only_below_the_limit(entries: int, form: type) -> None:
    identity = sp.csr_array(sp.eye_array(10, dtype=np.float32))
    assert isinstance(times(identity, with_entries(entries)), form)


def test_a_transposed_array_multiplies_as_it_reads() -> None:
    features = np.arange(6, dtype=np.float32).reshape(2, 3).T
    product = times(sp.csr_array(sp.eye_array(3, dtype=np.float32)), features)
    assert np.array_equal(product, features)


@given(st.integers(0, 2**32), st.floats(0, 1))
def test_the_torch_form_holds_the_same_values(seed: int, density: float) -> None:
    matrix = random_sparse(np.random.default_rng(seed), 5, 8, density)
    tensor = torch_csr(matrix)
    assert tensor.layout == torch.sparse_csr
    assert tensor.shape == (5, 8)
    assert np.array_equal(tensor.to_dense().numpy(), matrix.toarray())


def test_row_pointers_and_columns_get_one_integer_type() -> None:
    matrix = with_entries(5)
    matrix.indptr = matrix.indptr.astype(np.int64)
    tensor = torch_csr(matrix)
    assert tensor.crow_indices().dtype == tensor.col_indices().dtype == torch.int32


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_some_columns_are_taken_and_dense_ones_lie_row_by_row(form):
    matrix = form(np.arange(12, dtype=np.float32).reshape(3, 4))
    found = take_columns(matrix, np.array([1, 3]))
    assert to_dense(found).tolist() == [[1, 3], [5, 7], [9, 11]]
    assert take_columns(matrix, np.arange(4)) is matrix
    assert not isinstance(found, np.ndarray) or found.flags.c_contiguous
