"""Functions that run in a process of their own, within limits of time and memory that the kernel holds."""

from archon_mesh.limited.processes import LimitedProcesses, LimitExceeded

__all__ = ["LimitExceeded", "LimitedProcesses"]
