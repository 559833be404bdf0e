import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from delome.graph.sparse import to_dense
from delome.memories import GradientMatching, KernelMatching
from delome.memories.initial import Initial, initial_weights
from delome.memories.kernel import Kernel
from delome.memories.matching import gram_coordinates, match, principal_directions, weighted_rows
from delome.memories.merging import Earlier
from delome.memories.mmd import RealRows, Yardstick, mmd, relative_loss

CPU = torch.device("cpu")
KERNEL = Kernel.ntk(features=40, hidden=256)


def real_rows(rows: int, columns: int = 40, seed: int = 0) -> np.ndarray:
    """Rows around three centres."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((3, columns))
    return (centres[rng.integers(3, size=rows)] + 0.5 * rng.standard_normal((rows, columns))).astype(np.float32)


def weights(rows: int, budget: int, kind: Initial = "mixture") -> sp.csr_array:
    return initial_weights(kind, rows, budget, np.random.default_rng(1))


def loss_of(real, memory) -> float:
    return relative_loss(KERNEL, real, memory, np.random.default_rng(0))


def matched(real, budget, regime, kind="mixture"):
    start = weights(real.shape[0], budget, kind)
    return match(real, start, KERNEL, np.random.default_rng(2), CPU, regime)


@pytest.mark.parametrize("regime", ["gram", "direct", "batch"])
def test_every_regime_lowers_the_loss_to_the_same_value(regime):
    real = real_rows(2000, columns=40)
    start = loss_of(real, to_dense(weights(2000, 8) @ real))
    reached = loss_of(real, matched(real, 8, regime).rows)
    best = loss_of(real, matched(real, 8, "direct").rows)
    assert reached < 0.2 * start
    assert reached == pytest.approx(best, rel=0.25)


def test_gram_coordinates_and_direct_matching_agree_on_wide_rows():
    real = real_rows(30, columns=200)
    gram, direct = matched(real, 6, "gram"), matched(real, 6, "direct")
    assert loss_of(real, gram.rows) == pytest.approx(loss_of(real, direct.rows), rel=0.05)


def test_sparse_and_dense_rows_are_matched_alike():
    rng = np.random.default_rng(0)
    sparse = sp.csr_array(sp.random(50, 400, 0.02, format="csr", dtype=np.float32, rng=rng))
    for regime in ("gram", "direct"):
        a, b = matched(sparse, 5, regime), matched(sparse.toarray(), 5, regime)
        assert loss_of(sparse, a.rows) == pytest.approx(loss_of(sparse.toarray(), b.rows), rel=0.05)


@pytest.mark.parametrize(
    ("rows", "columns", "regime"),
    [(30, 200, "gram"), (300, 40, "direct"), (10_001, 3, "batch"), (2500, 2600, "direct")],
)
def test_the_regime_is_chosen_by_size(rows, columns, regime):
    assert match(real_rows(rows, columns), weights(rows, 2), KERNEL, np.random.default_rng(0), CPU).regime == regime


def test_gram_coordinates_have_the_inner_products_of_the_rows():
    real = real_rows(20, columns=100)
    coordinates, back = gram_coordinates(real)
    np.testing.assert_allclose(coordinates @ coordinates.T, real @ real.T, atol=1e-3)
    np.testing.assert_allclose(back(coordinates.numpy()), np.eye(20), atol=1e-3)


def test_principal_directions_span_rows_of_low_rank():
    rng = np.random.default_rng(0)
    real = (rng.standard_normal((60, 5)) @ rng.standard_normal((5, 40))).astype(np.float32)
    for features in (real, sp.csr_array(real)):
        basis = principal_directions(features, RealRows.of(features, CPU), 8, np.random.default_rng(1))
        torch.testing.assert_close(basis.T @ basis, torch.eye(8), atol=1e-5, rtol=0)
        np.testing.assert_allclose(real @ basis.numpy() @ basis.numpy().T, real, atol=1e-3)


def test_principal_directions_keep_nearly_as_much_as_the_best_ones():
    rng = np.random.default_rng(0)
    real = (rng.standard_normal((500, 80)) * 0.9 ** np.arange(80)).astype(np.float32)
    basis = principal_directions(real, RealRows.of(real, CPU), 20, np.random.default_rng(1)).numpy()
    best = (np.linalg.svd(real, compute_uv=False)[:20] ** 2).sum()
    assert ((real @ basis) ** 2).sum() > 0.98 * best


@pytest.mark.parametrize("kernel", [KERNEL, Kernel.embedding()])
def test_matching_in_the_span_of_principal_directions_loses_nothing(monkeypatch, kernel):
    rng = np.random.default_rng(0)
    real = np.abs(rng.standard_normal((300, 60)) * 0.9 ** np.arange(60)).astype(np.float32)
    losses = {}
    for spare in (4, 1000):
        monkeypatch.setattr("delome.memories.matching.SPARE_DIRECTIONS", spare)
        losses[spare] = match(real, weights(300, 10), kernel, np.random.default_rng(0), CPU, "direct").loss
    assert losses[4] == pytest.approx(losses[1000], rel=0.1)


@pytest.mark.parametrize("regime", ["gram", "direct", "batch"])
def test_directions_are_matched_and_lengths_are_those_of_the_class(monkeypatch, regime):
    monkeypatch.setattr("delome.memories.matching.BATCH_ROWS", 200)
    real = 7 * real_rows(300)
    kernel, rng = Kernel.embedding(), np.random.default_rng(0)
    matched = match(real, weights(300, 8), kernel, rng, CPU, regime)
    start = relative_loss(kernel, real, to_dense(weights(300, 8) @ real), rng)
    assert matched.loss < 0.3 * start
    assert matched.loss == pytest.approx(relative_loss(kernel, real, matched.rows, rng), rel=0.02, abs=1e-6)
    lengths = np.linalg.norm(matched.rows, axis=1)
    np.testing.assert_allclose(lengths, np.linalg.norm(real, axis=1).mean(), rtol=1e-4)


def test_the_loss_of_matched_rows_is_their_relative_loss():
    real = real_rows(300)
    found = matched(real, 8, None)
    assert found.loss == pytest.approx(loss_of(real, found.rows), rel=1e-3)


@pytest.mark.parametrize("unit", [1e-4, 1.0, 1e5])
def test_gram_coordinates_exist_for_rows_that_repeat_each_other_in_any_unit(unit):
    real = np.repeat(unit * real_rows(5, columns=100), 4, axis=0)
    coordinates, _ = gram_coordinates(real)
    np.testing.assert_allclose(coordinates @ coordinates.T, real @ real.T, atol=1e-3 * unit**2)


@pytest.mark.parametrize("regime", ["gram", "direct"])
def test_the_loss_does_not_depend_on_the_units_of_the_features(regime):
    real = real_rows(50, columns=100)
    small, large = matched(real, 5, regime).rows, matched(1000 * real, 5, regime).rows
    np.testing.assert_allclose(large / 1000, small, atol=0.05 * np.abs(small).max())


def test_as_many_rows_as_the_class_has_reproduce_it_almost_exactly():
    real = real_rows(12, columns=100)
    assert loss_of(real, matched(real, 12, "gram", "propagated").rows) < 1e-4


def test_all_starts_reach_nearly_the_same_loss():
    real = real_rows(400)
    losses = [loss_of(real, matched(real, 10, "direct", kind).rows) for kind in ("mixture", "noise", "propagated")]
    assert max(losses) < 1.2 * min(losses)


def test_relative_loss_of_a_sample_is_close_to_that_of_all_rows(monkeypatch):
    real = real_rows(3000)
    memory = to_dense(weights(3000, 8) @ real)
    exact = loss_of(real, memory)
    monkeypatch.setattr("delome.memories.mmd.MEASURED_ROWS", 1500)
    assert loss_of(real, memory) == pytest.approx(exact, rel=0.15)


def test_the_mean_kernel_of_a_sample_is_that_of_all_rows_on_average(monkeypatch):
    real = real_rows(6)
    exact = Yardstick(KERNEL, real, np.random.default_rng(0)).mean_real.item()
    monkeypatch.setattr("delome.memories.mmd.MEASURED_ROWS", 2)
    rng = np.random.default_rng(0)
    sampled = [Yardstick(KERNEL, real, rng).mean_real.item() for _ in range(1500)]
    # pairs of a row with itself are too many in a sample: without correction the mean would be far off
    assert np.mean(sampled) == pytest.approx(exact, abs=4 * np.std(sampled) / 1500**0.5)
    assert 4 * np.std(sampled) / 1500**0.5 < 0.1 * exact


def test_relative_loss_is_the_mmd_over_the_mean_kernel():
    real, memory = real_rows(30), real_rows(4, seed=3)

    def mean(a, b):
        a, b = torch.from_numpy(a).double(), torch.from_numpy(b).double()
        return KERNEL.values(a @ b.T, a.norm(dim=1), b.norm(dim=1)).mean().item()

    expected = (mean(real, real) - 2 * mean(real, memory) + mean(memory, memory)) / mean(real, real)
    assert loss_of(real, memory) == pytest.approx(expected, rel=1e-4)


def test_mean_kernel_does_not_depend_on_the_block():
    rows = RealRows(torch.from_numpy(real_rows(50)))
    torch.testing.assert_close(rows.mean_kernel(KERNEL, block=7), rows.mean_kernel(KERNEL, block=100))


@pytest.mark.parametrize("rows", [[[1.0, 0.0]], [[0.95, 0.05], [0.95, 0.05]], [[0.0, 3.0], [0.0, 3.0], [0.0, 3.0]]])
def test_matching_ends_when_rounding_makes_the_loss_negative(monkeypatch, rows):
    calls = []

    def counted(*arguments):
        calls.append(arguments)
        assert len(calls) < 1000, "matching goes on for ever"
        return mmd(*arguments)

    monkeypatch.setattr("delome.memories.matching.mmd", counted)
    real = np.array(rows, dtype=np.float32)
    kernel = Kernel.ntk(features=2, hidden=256)
    matched = match(real, weights(len(real), len(real)), kernel, np.random.default_rng(0), CPU)
    np.testing.assert_allclose(matched.rows, real, atol=1e-3)


def test_batch_descent_takes_twice_as_many_steps_with_momentum_one_half(monkeypatch):
    real, kernel, iterations = real_rows(20, columns=3), Kernel(a=1.5, w=0.5), 4
    # every batch is all rows, and the loss is never looked at
    monkeypatch.setattr("delome.memories.matching.BATCH_ROWS", 20)
    monkeypatch.setattr("delome.memories.matching.BATCH_STALL_STEPS", 100)
    start = weights(20, 4)
    matched = match(real, start, kernel, np.random.default_rng(0), CPU, "batch", iterations)
    scale = np.linalg.norm(real, axis=1).mean()
    rows = RealRows(torch.from_numpy(real / scale))
    memory, velocity = torch.from_numpy(to_dense(start @ real) / scale).float(), torch.tensor(0.0)
    for _ in range(8):
        _, gradient = mmd(kernel, rows, memory, torch.zeros(()))
        velocity = velocity / 2 - 4 / 2.0 * gradient
        memory = memory + velocity
    assert matched.steps == 8
    np.testing.assert_allclose(matched.rows, scale * memory.numpy(), atol=1e-4)


@pytest.mark.parametrize(("improves", "steps"), [([10.0, 9.0, 8.95, 1.0], 9), ([10.0, 10.5, 1.0, 0.1], 6)])
def test_batch_descent_ends_when_the_loss_measured_now_and_then_stalls(monkeypatch, improves, steps):
    losses = iter(improves)
    monkeypatch.setattr("delome.memories.matching.BATCH_ROWS", 20)
    monkeypatch.setattr("delome.memories.matching.BATCH_STALL_STEPS", 3)
    monkeypatch.setattr("delome.memories.matching.Yardstick.__call__", lambda *_: next(losses))
    matched = match(real_rows(20), weights(20, 4), KERNEL, np.random.default_rng(0), CPU, "batch")
    assert matched.steps == steps  # a gain of less than a hundredth is none


def test_rows_of_zeros_are_remembered_as_zeros():
    assert (matched(np.zeros((6, 10), np.float32), 2, None).rows == 0).all()


@pytest.mark.parametrize("kernel", ["ntk", "arc-cosine"])
def test_memory_has_budget_rows_per_class(build, toy_stream, kernel):
    memory = build(KernelMatching(budget=6, kernel=kernel), toy_stream[0])
    assert np.bincount(memory.labels).tolist() == [6, 6]
    assert np.isfinite(memory.graph.features).all()


@pytest.mark.parametrize("initial", ["mixture", "noise"])
def test_no_memory_row_is_a_real_row(build, toy_stream, initial):
    task = toy_stream[0]
    memory = build(KernelMatching(budget=6, init=initial), task)
    for features in (task.graph.features, task.graph.propagate(2)):
        assert np.linalg.norm(features[None] - memory.graph.features[:, None], axis=2).min() > 1e-2


def test_memory_of_sparse_features_has_only_words_of_its_class(build, sparse_stream):
    task = sparse_stream[0]
    memory = build(KernelMatching(budget=6), task)
    features = to_dense(memory.graph.features)
    for column in task.classes:
        used = to_dense(task.graph.propagate(2))[task.train[task.graph.labels[task.train] == column]].any(axis=0)
        assert (features[memory.labels == column][:, ~used] == 0).all()


def test_exact_matching_reaches_a_lower_expected_loss_than_sampled_networks(build, toy_stream):
    task = toy_stream[0]
    builders = KernelMatching(budget=6), GradientMatching(budget=6, networks=800)
    exact, sampled = (np.mean(build(builder, task).report["relative_loss"]) for builder in builders)
    assert exact < 0.5 * sampled


@pytest.mark.parametrize("as_sparse", [False, True])
@pytest.mark.parametrize("kernel", [KERNEL, Kernel.arc_cosine()])
def test_a_row_that_stands_for_many_is_as_many_rows(kernel, as_sparse):
    times = np.array([1, 5, 2, 1, 3])
    real, memory = real_rows(5), torch.from_numpy(real_rows(4, seed=1))
    combinations = weights(5, 4)
    weighted, same = weighted_rows(sp.csr_array(real) if as_sparse else real, combinations, times.astype(float))
    np.testing.assert_allclose(to_dense(same @ weighted), to_dense(combinations @ real), rtol=1e-5, atol=1e-6)
    results = []
    for rows in (weighted, np.repeat(real, times, axis=0)):
        rows = RealRows.of(rows, CPU)
        results.append(mmd(kernel, rows, memory, rows.mean_kernel(kernel)))
    (loss, gradient), (expected, expected_gradient) = results
    torch.testing.assert_close(loss, expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(gradient, expected_gradient, rtol=1e-4, atol=1e-5)


def test_a_class_that_comes_again_is_matched_to_old_and_new_rows(build, toy_stream):
    # the old rows are all real rows of another task's class, each of which stands for itself
    old = toy_stream[1].graph.propagate(2)[toy_stream[1].train]
    task = toy_stream[0]
    rng = np.random.default_rng
    alone = build(KernelMatching(budget=6), task)
    merged = build(KernelMatching(budget=6), task, earlier={1: Earlier(old, len(old))})
    new = task.graph.propagate(2)[task.train[task.graph.labels[task.train] == 1]]
    union = np.concatenate([old, new])
    kernel = Kernel.ntk(16, 256)
    losses = [relative_loss(kernel, union, part.graph.features[part.labels == 1], rng(0)) for part in (alone, merged)]
    assert losses[1] < 0.2 * losses[0]
    assert losses[1] == pytest.approx(merged.report["relative_loss"][1], rel=1e-3, abs=1e-5)
    # the other class is not touched
    assert (alone.graph.features[alone.labels == 0] == merged.graph.features[merged.labels == 0]).all()


@pytest.mark.slow
def test_matching_sixty_thousand_rows_peaks_below_one_gigabyte():
    script = """
import re
import numpy as np
import torch
from delome.memories.initial import initial_weights
from delome.memories.kernel import Kernel
from delome.memories.matching import match
from delome.memories.mmd import relative_loss
rng = np.random.default_rng(0)
real = rng.standard_normal((60_000, 100), dtype=np.float32) + 1
kernel = Kernel.ntk(100, 256)
matched = match(real, initial_weights("mixture", 60_000, 400, rng), kernel, rng, torch.device("cpu"))
assert matched.regime == "batch" and matched.rows.shape == (400, 100)
assert relative_loss(kernel, real, matched.rows, rng) < 0.02
# not ru_maxrss: a new process starts with the peak of the one that started it
print(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert int(done.stdout) * 1024 < 1e9
