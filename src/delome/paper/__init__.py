"""The paper's experiments as data: what to run, what was reported, and how the two are compared."""
