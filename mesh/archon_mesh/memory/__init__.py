"""What agents remember from run to run."""

from archon_mesh.memory.episodic import EpisodicMemory
from archon_mesh.memory.sessions import SessionManager
from archon_mesh.memory.store import SessionStore

__all__ = ["EpisodicMemory", "SessionManager", "SessionStore"]
