"""The journal: what happened in every run, durable before anything is done about it."""

from archon_services.orchestrator.journal.memory import MemoryJournal
from archon_services.orchestrator.journal.port import (
    Append,
    Journal,
    NewRun,
    OutboxRow,
    Outcome,
    Publication,
    RecordRow,
    RunRow,
)

__all__ = [
    "Append",
    "Journal",
    "MemoryJournal",
    "NewRun",
    "OutboxRow",
    "Outcome",
    "Publication",
    "RecordRow",
    "RunRow",
]
