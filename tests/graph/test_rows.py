import numpy as np
import pytest
import scipy.sparse as sp
import torch

from delome.graph.rows import Rows, SparseMatrix

CPU = torch.device("cpu")


def random_csr(rows: int, columns: int, density: float, seed: int = 0) -> sp.csr_array:
    rng = np.random.default_rng(seed)
    return sp.csr_array(sp.random(rows, columns, density, format="csr", dtype=np.float32, rng=rng))


@pytest.mark.parametrize(
    "matrix",
    [
        random_csr(20, 30, 0.08),
        sp.csr_array(sp.hstack([random_csr(20, 10, 0.5), sp.csr_array((20, 40), dtype=np.float32)])),
        sp.csr_array(sp.hstack([random_csr(20, 60, 0.05), sp.csr_array((20, 300), dtype=np.float32)])),
        sp.csr_array((4, 6), dtype=np.float32),
    ],
    ids=["sparse", "few columns, dense among them", "few columns, sparse among them", "empty"],
)
def test_sparse_product_and_its_gradient_equal_the_dense_ones(matrix):
    weight = torch.randn(matrix.shape[1], 5, generator=torch.Generator().manual_seed(0)).requires_grad_()
    upstream = torch.randn(matrix.shape[0], 5, generator=torch.Generator().manual_seed(1))
    dense = torch.from_numpy(matrix.toarray()) @ weight
    (expected,) = torch.autograd.grad((dense * upstream).sum(), weight)
    sparse = SparseMatrix(matrix, CPU).times(weight)
    (gradient,) = torch.autograd.grad((sparse * upstream).sum(), weight)
    torch.testing.assert_close(sparse, dense, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(gradient, expected, atol=1e-5, rtol=1e-5)


def test_only_used_columns_are_multiplied_when_they_are_few():
    matrix = sp.csr_array(sp.hstack([random_csr(20, 10, 0.5), sp.csr_array((20, 40), dtype=np.float32)]))
    assert SparseMatrix(matrix, CPU).forwards.shape == (20, 10)
    assert SparseMatrix(random_csr(20, 30, 0.1), CPU).columns is None


def test_form_is_chosen_by_density():
    assert isinstance(Rows.of(random_csr(50, 50, 0.05), CPU).content, SparseMatrix)
    assert isinstance(Rows.of(random_csr(50, 50, 0.3), CPU).content, torch.Tensor)


@pytest.mark.parametrize("density", [0.05, 0.5])
def test_select_and_join_give_the_same_rows_in_both_forms(density):
    matrix = random_csr(12, 40, density)
    rows = Rows.of(matrix, CPU)
    index = np.array([7, 0, 0, 3])
    expected = torch.from_numpy(matrix.toarray())
    torch.testing.assert_close(rows.select(index).dense(), expected[torch.from_numpy(index)])
    joined = Rows.join([rows.select(index), rows])
    assert len(joined) == 16
    torch.testing.assert_close(joined.dense(), torch.cat([expected[torch.from_numpy(index)], expected]))


def test_joining_sparse_with_dense_rows_is_dense():
    joined = Rows.join([Rows.of(random_csr(4, 30, 0.05), CPU), Rows(torch.ones(2, 30))])
    assert isinstance(joined.content, torch.Tensor)
    assert joined.content[4:].eq(1).all()
