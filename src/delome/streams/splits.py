"""Which nodes of a class are trained, validated and tested on: drawn at random, or given as masks."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from delome.errors import StreamError, shown
from delome.graph import Graph, as_numpy
from delome.graph.graph import MASKS
from delome.randomness import generator

Split: TypeAlias = Literal["random", "masks"] | Sequence[Any]
"""A way to split, or the nodes (ids or masks) to train, validate and test on."""


WORDS = {"masks": "masks of the graph", "given": "given arrays"}


@dataclass(frozen=True)
class Parts:
    """Nodes of one class; those in ``rest`` are in no part, but have their place in propagation."""

    train: np.ndarray
    val: np.ndarray
    test: np.ndarray
    rest: np.ndarray

    @property
    def in_order(self) -> tuple[np.ndarray, ...]:
        return self.train, self.val, self.test, self.rest


class RandomSplit:
    """60/20/20 of each class, drawn from (seed, label) alone."""

    def __init__(self, seed: int) -> None:
        self.kind = "random"
        self.description: dict[str, Any] = {"kind": "random, 60/20/20 per class", "seed": seed}
        self.seed = seed

    def parts(self, label: int, members: np.ndarray) -> Parts:
        """Splits the nodes of a class."""
        return self._drawn(generator(self.seed, "split", label).permutation(members))

    def parts_of_group(self, label: int, members: np.ndarray, group: int) -> Parts | None:
        """The same for the nodes that a class has in a group."""
        return self._drawn(generator(self.seed, "split", label, group).permutation(members))

    def _drawn(self, nodes: np.ndarray) -> Parts:
        held_out = -(-4 * len(nodes) // 10)
        test = -(-held_out // 2)
        train = len(nodes) - held_out
        return Parts(nodes[:train], nodes[train : train + held_out - test], nodes[train + held_out - test :], nodes[:0])


class GivenSplit:
    """What masks say."""

    def __init__(self, graph: Graph, masks: dict[str, np.ndarray], kind: str) -> None:
        train, val, test = (masks[name] for name in MASKS)
        for one, other, names in (
            (train, val, "train and val"),
            (train, test, "train and test"),
            (val, test, "val and test"),
        ):
            if (one & other).any():
                raise StreamError(
                    f"node {np.flatnonzero(one & other)[0]} is in {names}: a node may be in one part only"
                )
        self.graph, self.masks = graph, masks
        digest = hashlib.sha256(b"".join(np.packbits(masks[name]).tobytes() for name in MASKS)).hexdigest()
        self.kind = kind
        self.description: dict[str, Any] = {"kind": WORDS[kind], "sha256": digest}

    def parts(self, label: int, members: np.ndarray) -> Parts:
        """Splits the nodes of a class; refuses one that lacks a part."""
        found = self._found(members)
        if empty := [name for name, nodes in found.items() if len(nodes) == 0]:
            raise StreamError(
                f"class {shown(self.graph.user_label(label))} has no {empty[0]} node: give every class nodes of all "
                "three parts, leave the class out with class_order, or choose split='random'"
            )
        return self._parts(found, members)

    def parts_of_group(self, label: int, members: np.ndarray, group: int) -> Parts | None:
        """The same for the nodes that a class has in a group; none if it lacks a part there."""
        found = self._found(members)
        return self._parts(found, members) if all(len(nodes) for nodes in found.values()) else None

    def _found(self, members: np.ndarray) -> dict[str, np.ndarray]:
        return {name: members[self.masks[name][members]] for name in MASKS}

    def _parts(self, found: dict[str, np.ndarray], members: np.ndarray) -> Parts:
        taken = np.isin(members, np.concatenate(list(found.values())))
        return Parts(**found, rest=members[~taken])


def split_of(graph: Graph, split: Split | None, seed: int) -> RandomSplit | GivenSplit:
    """The split that was asked for; by default the graph's masks, if it has any, else a random one."""
    if split is None:
        split = "masks" if graph.masks else "random"
    if isinstance(split, str):
        if split == "random":
            return RandomSplit(seed)
        if split != "masks":
            raise StreamError(f"split must be 'random', 'masks' or three arrays of nodes, not {shown(split)}")
        if missing := [name for name in MASKS if name not in graph.masks]:
            raise StreamError(
                f"the graph has no {missing[0]}_mask: give it train_mask, val_mask and test_mask, "
                "or choose split='random'"
            )
        return GivenSplit(graph, graph.masks, "masks")
    if not isinstance(split, Sequence) or len(split) != len(MASKS):
        raise StreamError(f"split must be 'random', 'masks' or three arrays of nodes, not {shown(split)}")
    named = zip(MASKS, split, strict=True)
    return GivenSplit(graph, {name: _as_mask(name, nodes, graph.num_nodes) for name, nodes in named}, "given")


def _as_mask(name: str, nodes: Any, count: int) -> np.ndarray:
    values = as_numpy(nodes)
    if values.dtype == bool and values.shape == (count,):
        return values.copy()
    mask = np.zeros(count, dtype=bool)
    if values.size == 0:
        return mask
    if values.ndim != 1 or values.dtype.kind not in "iu" or values.min() < 0 or values.max() >= count:
        raise StreamError(f"the {name} part of a split must be a mask of all nodes, or node ids from 0 to {count - 1}")
    mask[values] = True
    return mask
