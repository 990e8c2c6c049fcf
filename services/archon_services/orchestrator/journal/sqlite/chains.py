"""The chains of the SQLite journal."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Final

from archon.errors import Aborted
from archon.history import AuditLink, RecordedStep
from archon_services.common.audit_entry import AuditFilter, AuditRow
from archon_services.orchestrator.journal.chains import LinkedRow
from archon_services.orchestrator.journal.page import PAGE_BYTES
from archon_services.orchestrator.journal.sqlite.audit_rows import insert_audit
from archon_services.orchestrator.journal.sqlite.owners import SqliteOwners

_STEPS: Final = """
SELECT base, last_seq, data, inputs, link, seal FROM (
  SELECT *, sum(length(data) + length(inputs)) OVER (ORDER BY base) - length(data) - length(inputs) AS before
  FROM steps WHERE run_id = ?1 AND base >= ?2 ORDER BY base LIMIT ?3
) WHERE before < ?4 ORDER BY base
"""
_UNLINKED: Final = """
SELECT row_id, data FROM audit WHERE number = 0 AND (chain = ?1 OR chain NOT IN (SELECT owner FROM owners))
ORDER BY row_id LIMIT ?2
"""
_HEADS: Final = """
SELECT chain, number, link FROM audit AS a WHERE number > 0
AND NOT EXISTS (SELECT 1 FROM audit AS b WHERE b.chain = a.chain AND b.number > a.number) ORDER BY row_id DESC LIMIT ?
"""
_LINK: Final = "UPDATE audit SET chain = ?, number = ?, digest = ?, link = ?, seal = ? WHERE row_id = ? AND number = 0"
_ENTRIES: Final = """
SELECT row_id, data FROM audit WHERE tenant = ?1 AND (?2 = 0 OR row_id < ?2) AND data <> x''
AND (?3 = 0 OR time >= ?3) AND (?4 = 0 OR time < ?4) AND ?5 IN ('', identity) AND ?6 IN ('', action)
AND ?7 IN ('', run_id) ORDER BY row_id DESC LIMIT ?8
"""
_LINKS: Final = """
SELECT chain, number, digest, link, seal, data FROM audit WHERE number > 0 AND (chain, number) > (?, ?)
ORDER BY chain, number LIMIT ?
"""
_ANCHORS: Final = """
SELECT chain, max(number) FROM audit AS a WHERE number > 0 AND time < ?1 AND (
  seal IS NOT NULL OR NOT EXISTS (SELECT 1 FROM audit AS b WHERE b.chain = a.chain AND b.number > 0
    AND b.seal IS NOT NULL)
) GROUP BY chain
"""


class SqliteChains(SqliteOwners):
    """The ChainStore part of SqliteJournal."""

    async def recorded_steps(
        self, run_id: str, after_seq: int = 0, limit: int = 500, max_bytes: int = PAGE_BYTES
    ) -> list[RecordedStep]:
        rows = await self._read(_STEPS, (run_id, after_seq, limit, max_bytes))
        return [
            RecordedStep(_number(base), _number(last_seq), *map(_bytes, (data, inputs, link, seal)))
            for base, last_seq, data, inputs, link, seal in rows
        ]

    async def add_audit(self, rows: Sequence[AuditRow]) -> None:
        await self._write(lambda db: insert_audit(db, rows))

    async def unlinked_audit(self, owner: str, limit: int) -> list[tuple[int, bytes]]:
        return [(row_id, _bytes(data)) for row_id, data in await self._read(_UNLINKED, (owner, limit))]

    async def audit_heads(self, limit: int) -> list[tuple[str, int, bytes]]:
        return [(chain, number, _bytes(link)) for chain, number, link in await self._read(_HEADS, (limit,))]

    async def link_audit(self, chain: str, rows: Sequence[LinkedRow]) -> bool:
        def work(db: sqlite3.Connection) -> None:
            linked = [(chain, row.number, row.digest, row.link, row.seal or None, row.row_id) for row in rows]
            if db.executemany(_LINK, linked).rowcount != len(rows):
                raise Aborted("one of them was linked before")  # rolls the transaction back

        try:
            await self._write(work)
        except Aborted:
            return False
        return True

    async def audit_entries(self, wanted: AuditFilter, below: int, limit: int) -> list[tuple[int, bytes]]:
        parameters = (wanted.tenant, below, wanted.after, wanted.before, wanted.identity, wanted.action, wanted.run_id)
        return [(row_id, _bytes(data)) for row_id, data in await self._read(_ENTRIES, (*parameters, limit))]

    async def audit_links(self, after: tuple[str, int], limit: int) -> list[AuditLink]:
        rows = await self._read(_LINKS, (*after, limit))
        return [AuditLink(str(row[0]), _number(row[1]), *map(_bytes, row[2:])) for row in rows]

    async def trim_audit(self, before: float) -> int:
        anchors = await self._read(_ANCHORS, (before,))  # reads the whole log: commits do not wait for it

        def work(db: sqlite3.Connection) -> int:
            gone = 0
            for chain, number in anchors:
                sql = "DELETE FROM audit WHERE chain = ? AND number > 0 AND number < ?"
                gone += db.execute(sql, (chain, number)).rowcount
                sql = "UPDATE audit SET data = x'' WHERE chain = ? AND number = ? AND data <> x''"
                gone += db.execute(sql, (chain, number)).rowcount
            return gone

        removed: int = await self._write(work)
        return removed


def _bytes(value: object) -> bytes:
    """SQLite stores a value of any type in any column: another program may have changed it."""
    return value if isinstance(value, bytes) else b"" if value is None else str(value).encode("utf-8", "replace")


def _number(value: object) -> int:
    return value if isinstance(value, int) else -1
