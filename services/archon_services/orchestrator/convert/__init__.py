"""Conversions between the engine's types and the contract's messages, by topic, both directions side by side."""

from archon_services.orchestrator.convert.event import event_from_proto, event_time, write_event
from archon_services.orchestrator.convert.failures import failure_from_proto, failure_to_proto
from archon_services.orchestrator.convert.stored import events_of, from_journal

__all__ = [
    "event_from_proto",
    "event_time",
    "events_of",
    "failure_from_proto",
    "failure_to_proto",
    "from_journal",
    "write_event",
]
