"""Fixtures of the adversary's tests: a mesh of real processes, and honest agents in the test's process."""

from tests.fixtures.mesh import mesh, own_mesh
from tests.integration.services.orchestrator.troupe import troupe

__all__ = ["mesh", "own_mesh", "troupe"]
