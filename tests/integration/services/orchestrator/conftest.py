"""Fixtures of the orchestrator's tests."""

from tests.fixtures.mesh import mesh, own_mesh, process_mesh
from tests.fixtures.replicas import process_replicas, replicas
from tests.fixtures.span_collector import span_collector
from tests.integration.services.orchestrator.troupe import troupe

__all__ = ["mesh", "own_mesh", "process_mesh", "process_replicas", "replicas", "span_collector", "troupe"]
