"""How a graph arrives: task after task, or as live data."""
