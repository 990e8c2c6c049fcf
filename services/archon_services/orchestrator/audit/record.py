"""Makes the entries about the calls of this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from archon_services.common.audit_entry import entry_of_call
from archon_services.orchestrator.journal import AuditRow, Journal


class AuditRecord:
    """`owner` returns the incarnation of this process, `now` wall seconds by the journal's clock."""

    def __init__(
        self,
        journal: Journal,
        owner: Callable[[], str],
        now: Callable[[], float],
        on_added: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_added` is called after an entry was stored without a step."""
        self._journal = journal
        self._owner = owner
        self._now = now
        self._on_added = on_added

    def row(
        self, action: str, *, run_id: str = "", target: str = "", details: Mapping[str, Any] | None = None
    ) -> AuditRow:
        """Returns the entry about an action of the call being served, to be stored with its effect."""
        entry = entry_of_call(action, self._now(), run_id=run_id, target=target, details=details)
        return AuditRow(self._owner(), entry.tenant, entry.time, entry.identity, action, run_id, entry.encode())

    async def add(self, row: AuditRow) -> None:
        """Stores an entry whose effect is not a step of a run here. Raises the errors of the journal."""
        await self._journal.add_audit([row])
        self._on_added()
