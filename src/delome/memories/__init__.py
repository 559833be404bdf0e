"""How the past is remembered: what a memory is, and one file for each way to build it."""

from delome.memories.bank import MemoryBank
from delome.memories.builder import MEMORIES, Context, MemoryBuilder
from delome.memories.distribution_matching import DistributionMatching, RepeatedDistributionMatching
from delome.memories.experience import Experience
from delome.memories.gradient_matching import GradientMatching
from delome.memories.kernel_matching import KernelMatching
from delome.memories.memory import Memory
from delome.memories.private_moments import PrivateMeans, PrivateMoments
from delome.memories.reservoir import Reservoir
from delome.memories.rows import Centroids, PropagatedRows, RawRows
from delome.memories.subgraph import Subgraphs

__all__ = [
    "MEMORIES",
    "Centroids",
    "Context",
    "DistributionMatching",
    "Experience",
    "GradientMatching",
    "KernelMatching",
    "Memory",
    "MemoryBank",
    "MemoryBuilder",
    "PrivateMeans",
    "PrivateMoments",
    "PropagatedRows",
    "RawRows",
    "RepeatedDistributionMatching",
    "Reservoir",
    "Subgraphs",
]
