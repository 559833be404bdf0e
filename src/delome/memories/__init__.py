"""How the past is remembered: what a memory is, and one file for each way to build it."""

from delome.memories.bank import Memory, MemoryBank, MemoryBuilder
from delome.memories.gradient_matching import GradientMatching
from delome.memories.kernel_matching import KernelMatching

__all__ = ["GradientMatching", "KernelMatching", "Memory", "MemoryBank", "MemoryBuilder"]
