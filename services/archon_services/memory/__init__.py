"""The shared memory: what roles publish in a scope, which roles may read it, and working memory."""

from typing import TYPE_CHECKING, Any

from archon_services.memory.settings import MemorySettings

if TYPE_CHECKING:
    from archon_services.memory.app import memory_app

__all__ = ["MemorySettings", "memory_app"]


def __getattr__(name: str) -> Any:
    # Imported on first use, because it imports networkx: commands that only read settings need none.
    if name == "memory_app":
        from archon_services.memory.app import memory_app

        return memory_app
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
