"""The shared memory from a member's or a client's side: publish answers, pull what others published; and the working
memory of a run."""

from archon.api.memory.v1.memory_pb2 import Published, PublishItem
from archon.memory.client import MemoryGraphClient
from archon.memory.item import MemoryChange, MemoryItem
from archon.memory.values import WorkingValue
from archon.memory.working import WorkingMemoryClient
from archon.registry import PropagationPolicy

__all__ = [
    "MemoryChange",
    "MemoryGraphClient",
    "MemoryItem",
    "PropagationPolicy",
    "PublishItem",
    "Published",
    "WorkingMemoryClient",
    "WorkingValue",
]
