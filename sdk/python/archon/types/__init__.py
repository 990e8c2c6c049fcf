"""Plain values that clients, agents and views of a run share: frozen, with the message of each as `proto`."""

from archon.types.budget import Budget
from archon.types.memory_ref import MemoryRef
from archon.types.part import Part
from archon.types.task_ref import TaskRef
from archon.types.usage import Usage

__all__ = ["Budget", "MemoryRef", "Part", "TaskRef", "Usage"]
