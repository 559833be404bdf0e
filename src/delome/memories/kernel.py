"""Kernels whose distance (MMD) is the expected gradient distance over random networks, with analytic gradients.

For rows x, z with angle θ, c = cos θ, s = sin θ, the arc-cosine kernels of order 1 and 0 (Cho and Saul, 2009) are

    k1(x, z) = |x||z| (s + (π - θ) c) / 2π        k0(x, z) = (π - θ) / 2π

and K = a k1 + w ⟨x, z⟩ k0 is the neural tangent kernel of a two-layer ReLU network, a from the gradients of its second
layer and w from those of its first. K is homogeneous: K(tx, tz) = t² K(x, z).
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
    """K = a k1 + w ⟨x, z⟩ k0."""

    a: float
    w: float

    @classmethod
    def ntk(cls, features: int, hidden: int) -> Kernel:
        """Of the backbone with ``hidden`` units on ``features`` columns, weights uniform in ±1/√fan_in."""
        return cls(hidden / (3 * features), 1 / 3)

    @classmethod
    def arc_cosine(cls) -> Kernel:
        """Mean embeddings under random one-layer ReLU encoders, as CaT matches them."""
        return cls(1.0, 0.0)

    def values(self, inner: Tensor, norms: Tensor, other_norms: Tensor) -> Tensor:
        """K between rows with these inner products and norms."""
        return self._values(inner, *_angles(inner, norms, other_norms))

    def values_and_slopes(
        self, inner: Tensor, norms: Tensor, other_norms: Tensor, same: bool = False
    ) -> tuple[Tensor, Tensor, Tensor]:
        """K(z, x) for rows z and other rows x, and P, q of its gradient.

        ∂ Σ_x K(z, x) / ∂z = Σ_x P(z, x) x + q(z) z. If both are the ``same`` rows, pairs of a row with itself are left
        out of P and q: their gradient is (a + w) z.
        """
        lengths, cosine, sine, supplement = _angles(inner, norms, other_norms)
        ratio = cosine / sine.clamp(min=SMALLEST_SINE)
        along = ((self.a + self.w) * supplement + self.w * ratio) / (2 * math.pi)
        radial = (self.a * sine - self.w * cosine * ratio) / (2 * math.pi)
        if same:
            along.fill_diagonal_(0)
            radial.fill_diagonal_(0)
        values = self._values(inner, lengths, cosine, sine, supplement)
        return values, along, (radial @ other_norms) / norms.clamp(min=TINY)

    def _values(self, inner: Tensor, lengths: Tensor, cosine: Tensor, sine: Tensor, supplement: Tensor) -> Tensor:
        return (self.a * lengths * (sine + supplement * cosine) + self.w * inner * supplement) / (2 * math.pi)

    def of_itself(self, norms: Tensor) -> Tensor:
        """K(z, z) = (a + w) |z|² / 2."""
        return (self.a + self.w) / 2 * norms.square()


def _angles(inner: Tensor, norms: Tensor, other_norms: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """|x||z|, cos θ, sin θ and π - θ of every pair."""
    lengths = torch.outer(norms, other_norms)
    cosine = (inner / lengths.clamp(min=TINY)).clamp(-1, 1)
    return lengths, cosine, (1 - cosine * cosine).sqrt(), math.pi - torch.arccos(cosine)
