"""The states of runs: read from the journal, kept for forks, and kept for a while after the end."""
