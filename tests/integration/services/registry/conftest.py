"""Fixtures of the registry's tests."""

from tests.fixtures.registry import client, make, prefix, registry, registry_store

__all__ = ["client", "make", "prefix", "registry", "registry_store"]
