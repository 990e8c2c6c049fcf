"""Between the engine's words and the wire's. Payloads are protos here and nowhere in the core."""

from archon_services.orchestrator.convert.failures import failure_from_proto, failure_to_proto
from archon_services.orchestrator.convert.folded import fold_journal
from archon_services.orchestrator.convert.read import event_from_proto, seconds
from archon_services.orchestrator.convert.stored import from_journal
from archon_services.orchestrator.convert.write import event_to_proto

__all__ = [
    "event_from_proto",
    "event_to_proto",
    "failure_from_proto",
    "failure_to_proto",
    "fold_journal",
    "from_journal",
    "seconds",
]
