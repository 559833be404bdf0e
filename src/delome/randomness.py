"""Explicit randomness: every choice comes from a generator named by (seed, purpose, indices)."""

from __future__ import annotations

import math
import zlib

import numpy as np
import torch
from torch import Tensor


def generator(seed: int, purpose: str, *indices: int) -> np.random.Generator:
    """Independent generator for one purpose, e.g. ``generator(seed, "batches", task, epoch)``.

    >>> int(generator(0, "split", 3).integers(1000)) == int(generator(0, "split", 3).integers(1000))
    True
    """
    # as a spawn key, because trailing zeros of the entropy itself change nothing
    entropy = [seed, zlib.crc32(purpose.encode())]
    return np.random.Generator(np.random.SFC64(np.random.SeedSequence(entropy, spawn_key=indices)))


def torch_generator(device: torch.device, seed: int, purpose: str, *indices: int) -> torch.Generator:
    """The same for random tensors that are made on a device."""
    return torch.Generator(device).manual_seed(int(generator(seed, purpose, *indices).integers(2**63)))


def uniform(rng: np.random.Generator, shape: tuple[int, ...], bound: float) -> Tensor:
    """Float32 tensor uniform in ±bound on a 16-bit grid with mean exactly zero.

    A random network has millions of entries and drawing them is what costs; 16 bits an entry are enough for
    an initialisation and four times cheaper than a float draw.
    """
    size = math.prod(shape)
    if size > 2**40:  # numpy and torch would report numbers that do not fit, each in its own way
        raise MemoryError(f"{size:,} random numbers do not fit in memory")
    grid = np.frombuffer(rng.bytes(2 * size), dtype=np.int16).astype(np.float32)
    grid += np.float32(0.5)
    grid *= np.float32(bound / 32768)
    return torch.from_numpy(grid).reshape(shape)
