import math

import numpy as np
import pytest
import torch

from delome.memories.distribution_matching import distribution_distance, mean_embeddings
from delome.memories.gradient_matching import Stacked, class_gradients, gradient_distance
from delome.memories.kernel import Kernel
from delome.memories.mmd import RealRows, mmd
from delome.randomness import uniform

KERNELS = {
    "ntk": Kernel.ntk(features=7, hidden=256),
    "arc-cosine": Kernel.arc_cosine(),
    "embedding": Kernel.embedding(),
    "directions of ntk": Kernel(a=0.7, w=1.3, directions=True),
}


def doubles(rows: int, features: int, seed: int) -> torch.Tensor:
    return torch.randn(rows, features, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def slow_kernel(kernel: Kernel, x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    if kernel.directions:
        x, z = x / x.norm(), z / z.norm()
    cosine = x @ z / (x.norm() * z.norm())
    angle = torch.arccos(cosine.clamp(-1 + 1e-12, 1 - 1e-12))
    first = x.norm() * z.norm() * (torch.sin(angle) + (math.pi - angle) * torch.cos(angle)) / (2 * math.pi)
    zeroth = (math.pi - angle) / (2 * math.pi)
    return kernel.a * first + kernel.w * (x @ z) * zeroth


def slow_mmd(kernel: Kernel, real: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
    def mean(a, b):
        total = sum(
            (kernel.a + kernel.w) / 2 * (1 if kernel.directions else x @ x)
            if a is b and i == j
            else slow_kernel(kernel, x, z)
            for i, x in enumerate(a)
            for j, z in enumerate(b)
        )
        return total / (len(a) * len(b))

    return mean(real, real) - 2 * mean(real, memory) + mean(memory, memory)


def value_and_gradient(kernel, real, memory):
    rows = RealRows(real)
    return mmd(kernel, rows, memory, rows.mean_kernel(kernel).double())


@pytest.mark.parametrize("name", KERNELS)
def test_value_and_gradient_equal_automatic_differentiation_of_the_slow_formula(name):
    real, memory = doubles(6, 7, 0), doubles(4, 7, 1).requires_grad_()
    expected = slow_mmd(KERNELS[name], real, memory)
    (slope,) = torch.autograd.grad(expected, memory)
    loss, gradient = value_and_gradient(KERNELS[name], real, memory.detach())
    assert loss.item() == pytest.approx(expected.item(), abs=1e-7)
    torch.testing.assert_close(gradient, slope, atol=1e-8, rtol=0)


def test_kernel_of_orthogonal_equal_and_opposite_rows_has_hand_computed_values():
    kernel = Kernel(a=2.0, w=3.0)
    norms = torch.tensor([1.0, 1.0])
    values = kernel.values(torch.tensor([[0.0, 1.0], [-1.0, 0.0]]), norms, norms)
    orthogonal = 2 / (2 * math.pi)
    expected = torch.tensor([[orthogonal, (2 + 3) / 2], [0.0, orthogonal]])
    torch.testing.assert_close(values, expected, atol=1e-6, rtol=0)


def test_the_kernel_of_a_row_with_itself_has_the_hand_computed_value():
    kernel = Kernel(a=2.0, w=3.0)
    assert kernel.of_itself(torch.tensor([2.0, 0.0])).tolist() == [10.0, 0.0]
    norms = torch.tensor([2.0])
    torch.testing.assert_close(kernel.values(torch.tensor([[4.0]]), norms, norms), torch.tensor([[10.0]]))


def test_the_kernel_of_embeddings_has_hand_computed_values_whatever_the_lengths():
    kernel, norms, other_norms = Kernel.embedding(), torch.tensor([2.0, 0.0]), torch.tensor([1.0, 5.0, 3.0, 4.0])
    # orthogonal, equal, opposite, and at 60°: (sin 60° + 120° cos 60°) / 180°
    values = kernel.values(torch.tensor([[0.0, 10.0, -6.0, 4.0], [0.0] * 4]), norms, other_norms)
    at_sixty = (3**0.5 / 2 + 2 * math.pi / 3 / 2) / math.pi
    expected = torch.tensor([[1 / math.pi, 1.0, 0.0, at_sixty], [0.0] * 4])
    torch.testing.assert_close(values, expected, atol=1e-6, rtol=0)
    assert kernel.of_itself(norms).tolist() == [1.0, 0.0]


@pytest.mark.parametrize("features", [30, 300])
def test_the_kernel_of_embeddings_is_the_average_over_random_encoders(features):
    """Of 512 units with Glorot's uniform weights, as CaT draws them: within 2 %, for width and weights."""
    width, encoders = 512, 400
    generator = torch.Generator().manual_seed(0)
    real = torch.rand(20, features, generator=generator) ** 4
    memory = torch.rand(4, features, generator=generator) ** 4
    rows = RealRows(real)
    kernel = Kernel.embedding()
    expected = mmd(kernel, rows, memory, rows.mean_kernel(kernel))[0].item()
    rng, bound = np.random.default_rng(0), (6 / (features + width)) ** 0.5
    sampled = []
    for _ in range(encoders):
        encoder = uniform(rng, (features, width), bound)
        sampled.append(distribution_distance(*(mean_embeddings(each, encoder, [len(each)]) for each in (real, memory))))
    error = np.std(sampled) / np.sqrt(encoders)
    assert error < 0.02 * expected
    assert abs(np.mean(sampled) - expected) < 3 * error + 0.02 * expected


def test_closeness_is_one_less_the_angle_over_pi():
    rows = torch.tensor([[2.0, 0.0], [0.0, 3.0], [-1.0, 0.0]])
    expected = torch.tensor([[1.0, 0.5, 0.0], [0.5, 1.0, 0.5], [0.0, 0.5, 1.0]])
    torch.testing.assert_close(Kernel(a=1.0, w=0.5).closeness(rows), expected, atol=1e-6, rtol=0)


def test_the_kernel_is_homogeneous_of_degree_two():
    kernel, inner, norms = KERNELS["ntk"], torch.tensor([[0.3]]), torch.tensor([1.2])
    scaled = kernel.values(9 * inner, 3 * norms, 3 * norms)
    torch.testing.assert_close(scaled, 9 * kernel.values(inner, norms, norms))


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("seed", range(5))
def test_mmd_is_positive_and_zero_when_the_memory_is_the_data(name, seed):
    kernel, real = KERNELS[name], doubles(8, 7, seed)
    assert value_and_gradient(kernel, real, doubles(3, 7, seed + 100))[0] > 0
    loss, gradient = value_and_gradient(kernel, real, real.clone())
    assert loss.item() == pytest.approx(0, abs=1e-6)
    assert gradient.abs().max() < 1e-7


@pytest.mark.parametrize("name", KERNELS)
def test_the_order_of_rows_does_not_matter(name):
    kernel, real, memory = KERNELS[name], doubles(9, 7, 0), doubles(4, 7, 1)
    order = torch.tensor([2, 0, 3, 1])
    loss, gradient = value_and_gradient(kernel, real, memory)
    shuffled, shuffled_gradient = value_and_gradient(kernel, real.flip(0), memory[order])
    torch.testing.assert_close(shuffled, loss)
    torch.testing.assert_close(shuffled_gradient, gradient[order])


@pytest.mark.parametrize("name", ["ntk", "embedding"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_zero_row_has_no_kernel_and_a_finite_gradient(name, dtype):
    real, memory = doubles(5, 7, 0).to(dtype), doubles(3, 7, 1).to(dtype)
    real[2], memory[1] = 0, 0
    loss, gradient = value_and_gradient(KERNELS[name], real, memory)
    assert torch.isfinite(loss)
    assert torch.isfinite(gradient).all()


@pytest.mark.parametrize(("loss", "classes", "factor"), [("nll", 2, 1.0), ("ce", 2, 0.5), ("ce", 20, 0.95)])
def test_the_closed_form_is_the_average_over_random_networks(loss, classes, factor):
    features, hidden, networks = 30, 256, 600
    generator = torch.Generator().manual_seed(0)
    real = 0.5 * torch.randn(20, features, generator=generator) + 0.3
    memory = 0.5 * torch.randn(4, features, generator=generator)
    kernel = Kernel.ntk(features, hidden)
    rows = RealRows(real)
    expected = factor * mmd(kernel, rows, memory, rows.mean_kernel(kernel))[0].item()
    rng = np.random.default_rng(0)
    sampled = []
    for _ in range(networks):
        first = uniform(rng, (features, hidden), features**-0.5)
        second = uniform(rng, (hidden, classes), hidden**-0.5)
        gradients = [
            class_gradients(Stacked.of([part], torch.device("cpu")), first, second, torch.tensor([0]), loss)
            for part in (real, memory)
        ]
        sampled.append(gradient_distance(*gradients).item())
    error = np.std(sampled) / np.sqrt(networks)
    # 3 % for cross-entropy: outputs at initialisation are only nearly uniform
    assert abs(np.mean(sampled) - expected) < 4 * error + 0.03 * expected
