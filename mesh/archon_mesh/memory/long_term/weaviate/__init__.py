"""Long-term memory in Weaviate, for several processes and machines."""

from archon_mesh.memory.long_term.weaviate.store import WeaviateLongTermStore

__all__ = ["WeaviateLongTermStore"]
