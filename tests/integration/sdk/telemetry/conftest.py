"""Fixtures of the tests of telemetry."""

from tests.fixtures.mesh import own_mesh

__all__ = ["own_mesh"]
