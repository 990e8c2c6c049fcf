"""Fixtures of the tests of plans over files and processes."""

from tests.fixtures.small_disk import small_disk

__all__ = ["small_disk"]
