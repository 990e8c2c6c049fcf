"""Fixtures of the tests of shared tools."""

from tests.fixtures.mesh import mesh, own_mesh, process_mesh

__all__ = ["mesh", "own_mesh", "process_mesh"]
