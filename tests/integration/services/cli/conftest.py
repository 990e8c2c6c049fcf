"""Fixtures of the tests of commands over a mesh."""

from tests.fixtures.mesh import own_mesh

__all__ = ["own_mesh"]
