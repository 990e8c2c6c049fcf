"""Memory of agents: sessions, episodic memory, working memory of a task, long-term memory (`long_term`), and the graph
that agents share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from archon.lazy_names import lazy_names

if TYPE_CHECKING:
    from archon_mesh.core.memory_graph import CycleError, MemoryItem, PropagationPolicy, SharedMemoryGraph
    from archon_mesh.memory.episodic import EpisodicMemory
    from archon_mesh.memory.sessions import SessionManager
    from archon_mesh.memory.store import SessionStore
    from archon_mesh.memory.working import WorkingMemory

__all__ = [
    "CycleError",
    "EpisodicMemory",
    "MemoryItem",
    "PropagationPolicy",
    "SessionManager",
    "SessionStore",
    "SharedMemoryGraph",
    "WorkingMemory",
]

_MODULES: Final = {  # sessions need SQLAlchemy, which the memory service does not, and the graph networkx
    "CycleError": "archon_mesh.core.memory_graph",
    "EpisodicMemory": "archon_mesh.memory.episodic",
    "MemoryItem": "archon_mesh.core.memory_graph",
    "PropagationPolicy": "archon_mesh.core.memory_graph",
    "SessionManager": "archon_mesh.memory.sessions",
    "SessionStore": "archon_mesh.memory.store",
    "SharedMemoryGraph": "archon_mesh.core.memory_graph",
    "WorkingMemory": "archon_mesh.memory.working",
}

__getattr__ = lazy_names(__name__, _MODULES)
