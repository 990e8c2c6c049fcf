"""Memory of agents: sessions, episodic memory, and working memory of a task."""

from archon_mesh.memory.episodic import EpisodicMemory
from archon_mesh.memory.sessions import SessionManager
from archon_mesh.memory.store import SessionStore
from archon_mesh.memory.working import WorkingMemory

__all__ = ["EpisodicMemory", "SessionManager", "SessionStore", "WorkingMemory"]
