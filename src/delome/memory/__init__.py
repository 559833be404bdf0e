"""How the past is remembered: what a memory is, and one file for each way to build it."""

from delome.memory.bank import Memory, MemoryBank, MemoryBuilder
from delome.memory.gradient_matching import GradientMatching
from delome.memory.kernel_matching import KernelMatching

__all__ = ["GradientMatching", "KernelMatching", "Memory", "MemoryBank", "MemoryBuilder"]
