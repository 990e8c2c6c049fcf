"""The three agents of `archon demo`, which find out why orders failed, from the log of a shop."""
