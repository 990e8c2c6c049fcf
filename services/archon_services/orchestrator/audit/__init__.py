"""The audit log of the orchestrator: its entries, and the chain of this process."""

from archon_services.orchestrator.audit.linker import AuditLinker
from archon_services.orchestrator.audit.record import AuditRecord

__all__ = ["AuditLinker", "AuditRecord"]
