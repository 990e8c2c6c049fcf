"""Fixtures of the adversary's tests: meshes of real processes, and honest agents in the test's process."""

from tests.fixtures.mesh import module_process_mesh as mesh
from tests.fixtures.mesh import own_mesh, process_mesh
from tests.fixtures.replicas import process_replicas, replicas
from tests.integration.services.orchestrator.troupe import troupe

__all__ = ["mesh", "own_mesh", "process_mesh", "process_replicas", "replicas", "troupe"]
