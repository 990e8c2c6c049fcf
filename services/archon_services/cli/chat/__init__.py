"""The parts of `archon chat`."""
