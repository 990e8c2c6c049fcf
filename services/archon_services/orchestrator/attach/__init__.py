"""Agents that cannot be dialled: they attach to an orchestrator, which relays the sessions of all orchestrators."""

from archon_services.orchestrator.attach.relay import AttachRelay
from archon_services.orchestrator.attach.servicer import (
    ATTACH_SERVICE,
    SESSION_SERVICE,
    AttachServicer,
    RelayedSessionServicer,
)

__all__ = ["ATTACH_SERVICE", "SESSION_SERVICE", "AttachRelay", "AttachServicer", "RelayedSessionServicer"]
