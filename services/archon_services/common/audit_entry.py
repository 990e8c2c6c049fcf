"""Entries of the audit log: about the call being served, and as a store keeps them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from archon import context
from archon.history import AuditEntry
from archon_mesh.core.value import value


@value
class AuditRow:
    """An entry to store. `owner` is the incarnation that writes it, `data` the encoded entry; the other fields are
    those that readers filter by."""

    owner: str
    tenant: str
    time: float
    identity: str
    action: str
    run_id: str
    data: bytes


@value
class AuditFilter:
    """Selects entries: of a tenant, from `after` until before `before` (wall seconds; 0: no limit), and of an identity,
    an action and a run, each empty for all."""

    tenant: str
    after: float = 0.0
    before: float = 0.0
    identity: str = ""
    action: str = ""
    run_id: str = ""


def entry_of_call(
    action: str, time: float, *, run_id: str = "", target: str = "", details: Mapping[str, Any] | None = None
) -> AuditEntry:
    """Returns an entry about an action of the call being served, at `time` (wall seconds). `details` must hold no
    answers, no inputs and no secrets."""
    call = context.current()
    actors = (call.actor,) if call.actor else ()
    return AuditEntry(call.tenant, time, call.identity, action, run_id, target, actors, details or {})
