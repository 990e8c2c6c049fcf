"""The command `archon`."""
