"""Long-term memory in one SQLite file, with sqlite-vec for vectors and FTS5 for words."""

from archon_mesh.memory.long_term.sqlite.store import SqliteLongTermStore

__all__ = ["SqliteLongTermStore"]
