"""Where noise comes from: the operating system's secret source, or a seed."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Literal, TypeAlias

import numpy as np
from scipy.special import ndtri

from delome.randomness import generator

Source: TypeAlias = Literal["secret", "seed"]

Noise: TypeAlias = Callable[..., np.ndarray]
"""Gives standard normal numbers in double precision for a shape."""

BITS = 53


def noise_from(source: Source, seed: int, *indices: int) -> Noise:
    """Standard normal noise: ``secret`` of the operating system, or of a ``seed``, which whoever knows it can undo."""
    if source == "secret":
        return secret_normal
    return generator(seed, "noise", *indices).standard_normal


def secret_normal(shape: tuple[int, ...]) -> np.ndarray:
    """Normal numbers Φ⁻¹((k + ½) / 2⁵³) of whole numbers k that the operating system draws for cryptography."""
    count = int(np.prod(shape))
    drawn = np.frombuffer(os.urandom(8 * count), dtype=np.uint64) >> np.uint64(64 - BITS)
    found: np.ndarray = ndtri((drawn + 0.5) / 2.0**BITS)
    return found.reshape(shape)
