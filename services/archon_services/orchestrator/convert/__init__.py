"""Conversions between the engine's types and the contract's messages. The core itself never sees a stub."""

from archon_services.orchestrator.convert.failures import failure_from_proto, failure_to_proto
from archon_services.orchestrator.convert.read import event_from_proto, seconds
from archon_services.orchestrator.convert.stored import events_of, from_journal
from archon_services.orchestrator.convert.write import event_to_proto, write_event

__all__ = [
    "event_from_proto",
    "event_to_proto",
    "events_of",
    "failure_from_proto",
    "failure_to_proto",
    "from_journal",
    "seconds",
    "write_event",
]
