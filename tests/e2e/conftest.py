"""Fixtures of the mesh that tests share."""

from __future__ import annotations

from tests.e2e.shared_mesh import asking_agents, delegated, finished, terminal

__all__ = ["asking_agents", "delegated", "finished", "terminal"]
