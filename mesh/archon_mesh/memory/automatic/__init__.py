"""Long-term memory that an agent uses by itself: recalled at the start of each run, stored at the end of each run."""

from archon_mesh.memory.automatic.access import LongTerm, OpenMemory
from archon_mesh.memory.automatic.middleware import MemoryMiddleware
from archon_mesh.memory.automatic.open_memory import open_memory
from archon_mesh.memory.automatic.owner import USER_KEY
from archon_mesh.memory.automatic.settings import MemorySettings

__all__ = ["USER_KEY", "LongTerm", "MemoryMiddleware", "MemorySettings", "OpenMemory", "open_memory"]
