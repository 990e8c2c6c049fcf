"""Fixtures of the adversary's tests: meshes of real processes, and honest agents in the test's process."""

from tests.fixtures.mesh import mesh, own_mesh
from tests.fixtures.replicas import replicas
from tests.integration.services.orchestrator.troupe import troupe

__all__ = ["mesh", "own_mesh", "replicas", "troupe"]
