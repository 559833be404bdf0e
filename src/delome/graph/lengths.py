"""Lengths of vectors that do not hide an overflow."""

from __future__ import annotations

import torch
from torch import Tensor


def lengths_of(vectors: Tensor) -> Tensor:
    """Euclidean length along the last dimension, which is kept; NaN if it overflows.

    A vector divided by an infinite length would be zero, as if nothing had happened.

    >>> lengths_of(torch.tensor([[3.0, 4.0], [1e30, 0.0]])).tolist()
    [[5.0], [nan]]
    """
    lengths: Tensor = vectors.norm(dim=-1, keepdim=True)
    return lengths.masked_fill(lengths.isinf(), torch.nan)
