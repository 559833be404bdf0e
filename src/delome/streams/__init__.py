"""How a graph arrives: task after task, by time, without boundaries, or as live data."""

from delome.streams.protocol import Protocol
from delome.streams.task_stream import TaskStream
from delome.streams.tasks import Observation, Stream, Task

from delome.streams.kind import STREAMS, StreamKind, parse_kind  # isort: skip  # kinds as they are listed
from delome.streams.classes import Classes  # isort: skip
from delome.streams.time import Time  # isort: skip
from delome.streams.domains import Domains  # isort: skip
from delome.streams.blurry import Blurry  # isort: skip

__all__ = [
    "STREAMS",
    "Blurry",
    "Classes",
    "Domains",
    "Observation",
    "Protocol",
    "Stream",
    "StreamKind",
    "Task",
    "TaskStream",
    "Time",
    "parse_kind",
]
