"""The times of runs: clocks, ids that sort by time, and timers."""
