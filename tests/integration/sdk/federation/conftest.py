"""Fixtures of the tests of gateways."""

from tests.fixtures.mesh import process_mesh
from tests.fixtures.span_collector import span_collector
from tests.integration.sdk.federation.two_meshes import own_meshes, shared_meshes, two_meshes

__all__ = ["own_meshes", "process_mesh", "shared_meshes", "span_collector", "two_meshes"]
