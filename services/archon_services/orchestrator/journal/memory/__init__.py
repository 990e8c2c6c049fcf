"""The journal in memory."""

from archon_services.orchestrator.journal.memory.journal import MemoryJournal

__all__ = ["MemoryJournal"]
