"""Fixtures of the agent's tests."""

from tests.fixtures.agents import dial, gate, serve

__all__ = ["dial", "gate", "serve"]
