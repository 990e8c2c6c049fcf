"""Fixtures of the tests of tools that exchange messages."""

from tests.fixtures.mesh import mesh

__all__ = ["mesh"]
