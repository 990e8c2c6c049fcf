"""The shared memory: the items that roles publish in a scope, their readers, and working memory."""

from typing import TYPE_CHECKING

from archon.lazy_names import lazy_names
from archon_services.memory.settings import MemorySettings

if TYPE_CHECKING:
    from archon_services.memory.app import memory_app

__all__ = ["MemorySettings", "memory_app"]

# The app imports networkx: commands that only read settings need none.
__getattr__ = lazy_names(__name__, {"memory_app": "archon_services.memory.app"})
