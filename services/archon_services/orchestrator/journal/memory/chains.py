"""The audit log of the journal in memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from archon.history import AuditLink
from archon_services.common.audit_entry import AuditFilter, AuditRow
from archon_services.orchestrator.journal.chains import LinkedRow
from archon_services.orchestrator.journal.memory.owners import MemoryOwners

MAX_ENTRIES = 100_000
"""Entries that are kept: the memory of the process bounds this log."""


@dataclass(slots=True)
class _Entry:
    row: AuditRow
    link: AuditLink | None = None


class MemoryChains(MemoryOwners):
    """The audit part of MemoryJournal; the links of runs are with their steps."""

    def __init__(self, *, shared: bool = False) -> None:
        super().__init__(shared=shared)
        self._audit: dict[int, _Entry] = {}
        self._next_entry = 1

    async def post(self, run_id: str, data: bytes, audit: AuditRow | None = None) -> int:
        if audit is not None:
            self._add_audit([audit])
        return await super().post(run_id, data)

    def _add_audit(self, rows: Iterable[AuditRow]) -> None:
        for row in rows:
            self._audit[self._next_entry] = _Entry(row)
            self._next_entry += 1

    async def add_audit(self, rows: Sequence[AuditRow]) -> None:
        self._add_audit(rows)

    async def unlinked_audit(self, owner: str, limit: int) -> list[tuple[int, bytes]]:
        others = self._living.keys() - {owner}
        rows = [
            (row_id, entry.row.data)
            for row_id, entry in self._audit.items()
            if entry.link is None and entry.row.owner not in others
        ]
        return rows[:limit]

    async def audit_heads(self, limit: int) -> list[tuple[str, int, bytes]]:
        heads: dict[str, tuple[str, int, bytes]] = {}
        for entry in self._audit.values():
            if (link := entry.link) is not None and link.number > heads.get(link.chain, ("", 0, b""))[1]:
                heads.pop(link.chain, None)
                heads[link.chain] = (link.chain, link.number, link.link)
        return list(reversed(heads.values()))[:limit]

    async def link_audit(self, chain: str, rows: Sequence[LinkedRow]) -> bool:
        if any(row.row_id not in self._audit or self._audit[row.row_id].link is not None for row in rows):
            return False
        for row in rows:
            entry = self._audit[row.row_id]
            entry.link = AuditLink(chain, row.number, row.digest, row.link, row.seal, entry.row.data)
        if len(self._audit) > MAX_ENTRIES:
            self._trim(list(self._audit)[-MAX_ENTRIES])
        return True

    async def audit_entries(self, wanted: AuditFilter, below: int, limit: int) -> list[tuple[int, bytes]]:
        found = [
            (row_id, entry.row.data)
            for row_id, entry in reversed(self._audit.items())
            if entry.row.data and (not below or row_id < below) and _matches(entry.row, wanted)
        ]
        return found[:limit]

    async def audit_links(self, after: tuple[str, int], limit: int) -> list[AuditLink]:
        links = [entry.link for entry in self._audit.values() if entry.link is not None]
        links = [link for link in links if (link.chain, link.number) > after]
        return sorted(links, key=lambda link: (link.chain, link.number))[:limit]

    async def trim_audit(self, before: float) -> int:
        old = [row_id for row_id, entry in self._audit.items() if entry.row.time < before]
        return self._trim(old[-1] + 1) if old else 0

    def _trim(self, below: int) -> int:
        """Removes the entries before a row, up to an anchor of each chain."""
        anchors: dict[str, tuple[int, int]] = {}
        sealed = {entry.link.chain for entry in self._audit.values() if entry.link is not None and entry.link.seal}
        for row_id, entry in self._audit.items():
            link = entry.link
            is_anchor = link is not None and (link.seal or link.chain not in sealed)
            if row_id < below and is_anchor and link is not None:
                anchors[link.chain] = (link.number, row_id)
        gone = 0
        for row_id, entry in list(self._audit.items()):
            if (link := entry.link) is None or link.chain not in anchors or link.number > anchors[link.chain][0]:
                continue
            if row_id == anchors[link.chain][1]:
                gone += bool(entry.row.data)
                self._audit[row_id] = _Entry(replace(entry.row, data=b""), replace(link, data=b""))
            else:
                del self._audit[row_id]
                gone += 1
        return gone


def _matches(row: AuditRow, wanted: AuditFilter) -> bool:
    return (
        row.tenant == wanted.tenant
        and (not wanted.after or row.time >= wanted.after)
        and (not wanted.before or row.time < wanted.before)
        and wanted.identity in ("", row.identity)
        and wanted.action in ("", row.action)
        and wanted.run_id in ("", row.run_id)
    )
