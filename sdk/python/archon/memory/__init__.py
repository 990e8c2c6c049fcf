"""The shared memory from a member's or a client's side: publish answers, pull the answers of others; the working memory
of a run; and long-term memory."""

from archon.memory.client import MemoryGraphClient
from archon.memory.item import FoundItem, MemoryChange, MemoryItem
from archon.memory.long_term.client import LongTermMemoryClient
from archon.memory.long_term.contradiction import Contradiction, Keep
from archon.memory.long_term.entry import FoundEntry, LongTermEntry, LongTermStats
from archon.memory.publication import Published, PublishItem
from archon.memory.values import WorkingChange, WorkingValue
from archon.memory.working import WorkingMemoryClient
from archon.registry import PropagationPolicy

__all__ = [
    "Contradiction",
    "FoundEntry",
    "FoundItem",
    "Keep",
    "LongTermEntry",
    "LongTermMemoryClient",
    "LongTermStats",
    "MemoryChange",
    "MemoryGraphClient",
    "MemoryItem",
    "PropagationPolicy",
    "PublishItem",
    "Published",
    "WorkingChange",
    "WorkingMemoryClient",
    "WorkingValue",
]
