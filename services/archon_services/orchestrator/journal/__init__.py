"""The journal: the events of every run, durable before they have an effect."""

from archon_services.orchestrator.journal.memory import MemoryJournal
from archon_services.orchestrator.journal.owners import CommandRow, OwnerRow
from archon_services.orchestrator.journal.port import Journal
from archon_services.orchestrator.journal.rows import (
    NewRun,
    OutboxRow,
    Outcome,
    Publication,
    RecordRow,
    RunRow,
    SameRequest,
    Step,
    StepResult,
    StoredStep,
)
from archon_services.orchestrator.journal.session_history import Conversation, Turn

__all__ = [
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
    "SameRequest",
    "Step",
    "StepResult",
    "StoredStep",
    "Turn",
]
