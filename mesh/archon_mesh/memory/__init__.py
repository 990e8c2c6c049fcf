"""Memory of agents: sessions, episodic memory, working memory of a task, and long-term memory (`long_term`)."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from archon_mesh.memory.episodic import EpisodicMemory
    from archon_mesh.memory.sessions import SessionManager
    from archon_mesh.memory.store import SessionStore
    from archon_mesh.memory.working import WorkingMemory

__all__ = ["EpisodicMemory", "SessionManager", "SessionStore", "WorkingMemory"]

_MODULES: Final = {
    "EpisodicMemory": "archon_mesh.memory.episodic",
    "SessionManager": "archon_mesh.memory.sessions",
    "SessionStore": "archon_mesh.memory.store",
    "WorkingMemory": "archon_mesh.memory.working",
}


def __getattr__(name: str) -> Any:
    """Imports a name when it is used: sessions need SQLAlchemy, which the memory service does not."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
