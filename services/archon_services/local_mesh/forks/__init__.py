"""Starts processes as forks of one that has imported their modules: in a fraction of the time. Linux only."""

from archon_services.local_mesh.forks.client import ForkServer, module_of
from archon_services.local_mesh.forks.process import ForkedProcess

__all__ = ["ForkServer", "ForkedProcess", "module_of"]
