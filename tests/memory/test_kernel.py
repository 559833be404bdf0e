import math

import numpy as np
import pytest
import torch

from delome.memory.gradient_matching import Stacked, class_gradients, gradient_distance
from delome.memory.kernel import Kernel
from delome.memory.kernel_matching import RealRows, mmd
from delome.randomness import uniform

KERNELS = {"ntk": Kernel.ntk(features=7, hidden=256), "arc-cosine": Kernel.arc_cosine()}


def doubles(rows: int, features: int, seed: int) -> torch.Tensor:
    return torch.randn(rows, features, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def slow_kernel(kernel: Kernel, x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    cosine = x @ z / (x.norm() * z.norm())
    angle = torch.arccos(cosine.clamp(-1 + 1e-12, 1 - 1e-12))
    first = x.norm() * z.norm() * (torch.sin(angle) + (math.pi - angle) * torch.cos(angle)) / (2 * math.pi)
    zeroth = (math.pi - angle) / (2 * math.pi)
    return kernel.a * first + kernel.w * (x @ z) * zeroth


def slow_mmd(kernel: Kernel, real: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
    def mean(a, b):
        total = sum(
            (kernel.a + kernel.w) / 2 * (x @ x) if a is b and i == j else slow_kernel(kernel, x, z)
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


def test_a_zero_row_has_no_kernel_and_a_finite_gradient():
    real, memory = doubles(5, 7, 0), doubles(3, 7, 1)
    real[2], memory[1] = 0, 0
    loss, gradient = value_and_gradient(KERNELS["ntk"], real, memory)
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
