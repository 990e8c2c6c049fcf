"""The chains of a journal: the link and the seal of each step of a run, and the audit log.

A step is stored with its link. An entry of the audit log is stored in the transaction of its effect, without one: the
process that wrote it links it to its chain within seconds, and seals the chain; entries of a process that has died are
linked by another one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from archon.history import AuditLink, RecordedStep
from archon_mesh.core.value import value
from archon_services.common.audit_entry import AuditFilter, AuditRow
from archon_services.orchestrator.journal.page import PAGE_BYTES


@value
class LinkedRow:
    """The place of a stored row in a chain."""

    row_id: int
    number: int
    digest: bytes
    link: bytes
    seal: bytes


class ChainStore(Protocol):
    """The part of a journal that keeps chains. Raises the errors of the journal."""

    async def recorded_steps(
        self, run_id: str, after_seq: int = 0, limit: int = 500, max_bytes: int = PAGE_BYTES
    ) -> list[RecordedStep]:
        """Returns the steps that begin after event `after_seq` or later, in order, up to the one that reaches
        `max_bytes`. They are returned as they are, not checked."""
        ...

    async def add_audit(self, rows: Sequence[AuditRow]) -> None:
        """Stores entries without a step, durable on return."""
        ...

    async def unlinked_audit(self, owner: str, limit: int) -> list[tuple[int, bytes]]:
        """Returns (row id, data) of entries without a link that `owner` or no live incarnation wrote, oldest first."""
        ...

    async def audit_heads(self, limit: int) -> list[tuple[str, int, bytes]]:
        """Returns (chain, number, link) of the last entry of each chain, those with the newest entries first."""
        ...

    async def link_audit(self, chain: str, rows: Sequence[LinkedRow]) -> bool:
        """Adds stored entries to a chain, in one transaction. Returns False, and changes nothing, if another process
        has linked one of them first."""
        ...

    async def audit_entries(self, wanted: AuditFilter, below: int, limit: int) -> list[tuple[int, bytes]]:
        """Returns (row id, data) of entries, newest first; `below` is the last row id of the previous page, 0 for the
        first page."""
        ...

    async def audit_links(self, after: tuple[str, int], limit: int) -> list[AuditLink]:
        """Returns linked entries of all tenants in the order of (chain, number), after this place."""
        ...

    async def trim_audit(self, before: float) -> int:
        """Removes entries that are older (wall seconds), up to the last of them with a seal, whose link and seal
        stay as the anchor of the rest. In a chain without seals any entry is an anchor. Returns how many are gone."""
        ...
