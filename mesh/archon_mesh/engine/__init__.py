"""The host of the run engine (`archon_mesh.core.run`) in a process."""

from archon_mesh.engine.local import LocalRun

__all__ = ["LocalRun"]
