"""The tables that every SDK shares, computed from Python's SDK and the contract, and rendered in each language."""
