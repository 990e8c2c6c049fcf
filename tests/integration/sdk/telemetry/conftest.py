"""Fixtures of the tests of telemetry."""

from tests.fixtures.mesh import process_mesh

__all__ = ["process_mesh"]
