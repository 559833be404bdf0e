"""The contract of every method, and what methods share."""
