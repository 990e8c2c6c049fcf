"""The audit log of the registry: who changed the edges."""

from archon_services.registry.audit.log import RegistryAudit
from archon_services.registry.audit.store import AuditStore, EtcdAuditStore, MemoryAuditStore

__all__ = ["AuditStore", "EtcdAuditStore", "MemoryAuditStore", "RegistryAudit"]
