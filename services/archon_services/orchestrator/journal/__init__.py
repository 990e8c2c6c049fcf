"""The journal: what happened in every run, durable before anything is done about it."""

from archon_services.orchestrator.journal.memory.journal import MemoryJournal
from archon_services.orchestrator.journal.owners import CommandRow, OwnerRow
from archon_services.orchestrator.journal.port import Journal
from archon_services.orchestrator.journal.rows import (
    Append,
    NewRun,
    OutboxRow,
    Outcome,
    Publication,
    RecordRow,
    RunRow,
)
from archon_services.orchestrator.journal.session_history import Conversation, Turn

__all__ = [
    "Append",
    "CommandRow",
    "Conversation",
    "Journal",
    "MemoryJournal",
    "NewRun",
    "OutboxRow",
    "Outcome",
    "OwnerRow",
    "Publication",
    "RecordRow",
    "RunRow",
    "Turn",
]
