"""Replay by its own name: any memory × any loss."""

from __future__ import annotations

from delome.learning import METHODS
from delome.learning.replay import Replay

METHODS.add("replay", Replay)
