"""Releasing statistics of private rows: noise, what it guarantees, and what has been spent."""
