"""Explicit randomness: every choice comes from a generator named by (seed, purpose, indices)."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np
import torch
from torch import Tensor

from delome.errors import StateError


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


_most: ContextVar[float] = ContextVar("most random weights at once", default=math.inf)


@contextmanager
def at_most(count: int) -> Iterator[None]:
    """Limits how many random weights the block may draw at once: a file must not decide how much memory is used.

    Not in all: a network may draw weights and then draw them again, as GAT does.
    """
    token = _most.set(count)
    try:
        yield
    finally:
        _most.reset(token)


def _count(shape: tuple[int, ...]) -> int:
    size = math.prod(shape)
    if size > 2**40:  # numpy and torch would report numbers that do not fit, each in its own way
        raise MemoryError(f"{size:,} random numbers do not fit in memory")
    if size > _most.get():
        raise StateError(f"a network of {size:,} weights is larger than what was saved of it")
    return size


def normal(rng: np.random.Generator, shape: tuple[int, ...], std: float) -> Tensor:
    """Float32 tensor of normal weights."""
    _count(shape)
    return torch.from_numpy(rng.standard_normal(shape, dtype=np.float32) * np.float32(std))


def uniform(rng: np.random.Generator, shape: tuple[int, ...], bound: float) -> Tensor:
    """Float32 tensor uniform in ±bound on a 16-bit grid with mean exactly zero.

    A random network has millions of entries and drawing them is what costs; 16 bits an entry are enough for
    an initialisation and four times cheaper than a float draw.
    """
    grid = np.frombuffer(rng.bytes(2 * _count(shape)), dtype=np.int16).astype(np.float32)
    grid += np.float32(0.5)
    grid *= np.float32(bound / 32768)
    return torch.from_numpy(grid).reshape(shape)
