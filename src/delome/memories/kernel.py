"""Kernels whose distance (MMD) is the expected gradient distance over random networks, with analytic gradients.

For rows x, z with angle θ, c = cos θ, s = sin θ, the arc-cosine kernels of order 1 and 0 (Cho and Saul, 2009) are

    k1(x, z) = |x||z| (s + (π - θ) c) / 2π        k0(x, z) = (π - θ) / 2π

and K = a k1 + w ⟨x, z⟩ k0 is the neural tangent kernel of a two-layer ReLU network, a from the gradients of its second
layer and w from those of its first. K is homogeneous in each argument: K(tx, z) = t K(x, z) for t > 0.

In short K(x, z) = |x||z| g(c) with g(c) = (a s + (a + w) (π - θ) c) / 2π and g'(c) = ((a + w) (π - θ) + w c/s) / 2π.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

SMALLEST_SINE = 1e-3
"""Floor of sin θ in denominators: below it float32 angles are noise."""
TINY = 1e-30
CPU = torch.device("cpu")


@dataclass(frozen=True)
class Kernel:
    """K = a k1 + w ⟨x, z⟩ k0; of ``directions`` alone: K(x/|x|, z/|z|) = g(c)."""

    a: float
    w: float
    directions: bool = False

    @classmethod
    def ntk(cls, features: int, hidden: int) -> Kernel:
        """Of the backbone with ``hidden`` units on ``features`` columns, weights uniform in ±1/√fan_in."""
        return cls(hidden / (3 * features), 1 / 3)

    @classmethod
    def arc_cosine(cls) -> Kernel:
        """Mean embeddings under random one-layer ReLU encoders."""
        return cls(1.0, 0.0)

    @classmethod
    def embedding(cls) -> Kernel:
        """Mean embeddings of length 1, as CaT matches them, under encoders with very many units: (s + (π - θ) c) / π.

        The squared length of an embedding is then close to its mean, which is proportional to k1(x, x).
        """
        return cls(2.0, 0.0, directions=True)

    def values(self, inner: Tensor, norms: Tensor, other_norms: Tensor) -> Tensor:
        """K between rows with these inner products and norms."""
        sizes, other_sizes = self._sizes(norms), self._sizes(other_norms)
        return self._shape(*_angles(inner, norms, other_norms)).mul_(other_sizes).mul_(sizes[:, None])

    def sum_and_slopes(
        self, inner: Tensor, norms: Tensor, other_norms: Tensor, same: bool = False
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Σ K(z, x) over rows z and other rows x, and P, q of its gradient.

        ∂ Σ_x K(z, x) / ∂z = Σ_x P(z, x) x + q(z) z. If both are the ``same`` rows, pairs of a row with itself are left
        out of P and q: their gradient is `slope_with_itself` times z.
        """
        sizes, other_sizes = self._sizes(norms), self._sizes(other_norms)
        cosine, sine, supplement = _angles(inner, norms, other_norms)
        total = sizes @ (self._shape(cosine, sine, supplement) @ other_sizes)
        ratio = sine.clamp(min=SMALLEST_SINE).reciprocal_().mul_(cosine).mul_(self.w / (2 * math.pi))
        along = supplement.mul_((self.a + self.w) / (2 * math.pi)).add_(ratio)  # g'
        if self.directions:
            radial = torch.mul(along, cosine).neg_()
        else:
            radial = sine.mul_(self.a / (2 * math.pi)).sub_(ratio.mul_(cosine))  # g - c g'
        if same:
            along.fill_diagonal_(0)
            radial.fill_diagonal_(0)
        per_norm = sizes / norms.clamp(min=TINY)
        if self.directions:
            along.mul_(other_sizes / other_norms.clamp(min=TINY)).mul_(per_norm[:, None])
        return total, along, radial @ other_sizes * per_norm / norms.clamp(min=TINY)

    def of_itself(self, norms: Tensor) -> Tensor:
        """K(z, z) = (a + w) |z|² / 2."""
        return (self.a + self.w) / 2 * self._sizes(norms).square()

    @property
    def slope_with_itself(self) -> float:
        """∂K(z, z)/∂z in units of z."""
        return 0.0 if self.directions else self.a + self.w

    def closeness(self, rows: Tensor) -> Tensor:
        """(π - θ)/π of every pair: up to rank one, ∂²K(x, z)/∂x∂z is (a + w)/2 times it in every direction."""
        norms = rows.norm(dim=1)
        return _angles(rows @ rows.T, norms, norms)[2].fill_diagonal_(math.pi).div_(math.pi)

    def _sizes(self, norms: Tensor) -> Tensor:
        """What g is multiplied with for each row; rows of zeros have no direction."""
        return (norms > 0).to(norms.dtype) if self.directions else norms

    def _shape(self, cosine: Tensor, sine: Tensor, supplement: Tensor) -> Tensor:
        """g of every pair."""
        shape = torch.mul(supplement, cosine).mul_(self.a + self.w)
        return shape.add_(sine, alpha=self.a).div_(2 * math.pi)


def _angles(inner: Tensor, norms: Tensor, other_norms: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """cos θ, sin θ and π - θ of every pair."""
    cosine = inner * other_norms.clamp(min=TINY).reciprocal_()
    cosine.mul_(norms.clamp(min=TINY).reciprocal_()[:, None]).clamp_(-1, 1)
    sine = torch.mul(cosine, cosine).neg_().add_(1).sqrt_()
    return cosine, sine, torch.arccos(cosine).neg_().add_(math.pi)
