"""Fixtures of the memory service's tests."""

from tests.fixtures.memory_mesh import client, fresh_mesh, mesh

__all__ = ["client", "fresh_mesh", "mesh"]
