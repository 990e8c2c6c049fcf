"""The shared memory: what each role published in a scope, and who may see it."""

from archon_services.memory.app import MemorySettings, memory_app

__all__ = ["MemorySettings", "memory_app"]
