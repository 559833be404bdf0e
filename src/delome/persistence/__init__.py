"""Files that survive: atomic writes, locks, checksummed documents, states, saved learners."""
