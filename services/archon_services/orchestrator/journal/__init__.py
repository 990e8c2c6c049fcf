"""The journal: the events of every run, durable before they have an effect."""

from archon_services.common.audit_entry import AuditFilter, AuditRow
from archon_services.orchestrator.journal.chains import LinkedRow
from archon_services.orchestrator.journal.daily_usage import DailyUsageRow
from archon_services.orchestrator.journal.learning import EvidenceRow, LearnedRow, UnlearnedRow
from archon_services.orchestrator.journal.memory import MemoryJournal
from archon_services.orchestrator.journal.owners import CommandRow, OwnerRow
from archon_services.orchestrator.journal.port import Journal
from archon_services.orchestrator.journal.retained import DetailedRun, MarkRow
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
from archon_services.orchestrator.journal.track_records import RatingRow, TrackRecordRow
from archon_services.orchestrator.journal.triggers import EndedFire, FireRow, TriggerRow

__all__ = [
    "AuditFilter",
    "AuditRow",
    "CommandRow",
    "Conversation",
    "DailyUsageRow",
    "DetailedRun",
    "EndedFire",
    "EvidenceRow",
    "FireRow",
    "Journal",
    "LearnedRow",
    "LinkedRow",
    "MarkRow",
    "MemoryJournal",
    "NewRun",
    "OutboxRow",
    "Outcome",
    "OwnerRow",
    "Publication",
    "RatingRow",
    "RecordRow",
    "RunRow",
    "SameRequest",
    "Step",
    "StepResult",
    "StoredStep",
    "TrackRecordRow",
    "TriggerRow",
    "Turn",
    "UnlearnedRow",
]
