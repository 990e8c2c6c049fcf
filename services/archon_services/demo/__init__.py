"""What `archon demo` runs: three agents that find out why orders failed, from the log of a shop."""
