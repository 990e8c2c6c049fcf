"""Fixtures of the orchestrator's tests."""

from tests.fixtures.mesh import mesh, own_mesh
from tests.fixtures.span_collector import span_collector
from tests.integration.services.orchestrator.troupe import troupe

__all__ = ["mesh", "own_mesh", "span_collector", "troupe"]
