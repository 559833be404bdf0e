"""How a graph arrives: task after task, or as live data."""

from delome.registry import Registry
from delome.streams.task_stream import TaskStream
from delome.streams.tasks import Observation, Stream, Task

STREAMS: Registry[type[Stream]] = Registry("stream", "streams")
STREAMS.add("classes", TaskStream)

__all__ = ["STREAMS", "Observation", "Stream", "Task", "TaskStream"]
