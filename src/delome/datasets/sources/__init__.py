"""Where graphs come from, one file a source."""
