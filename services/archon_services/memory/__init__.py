"""The shared memory: what roles publish in a scope, which roles may read it, and working memory."""

from archon_services.memory.app import memory_app
from archon_services.memory.settings import MemorySettings

__all__ = ["MemorySettings", "memory_app"]
