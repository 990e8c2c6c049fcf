"""The chains of the PostgreSQL journal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from archon.errors import Aborted
from archon.history import AuditLink, RecordedStep
from archon_services.common.audit_entry import AuditFilter, AuditRow
from archon_services.orchestrator.journal.chains import LinkedRow
from archon_services.orchestrator.journal.page import PAGE_BYTES
from archon_services.orchestrator.journal.postgres.owners import PostgresOwners
from archon_services.postgres.connections import Connection

RECORDED: Final = """
SELECT s.base, s.last_seq, s.data, s.inputs, s.link, s.seal FROM (
  SELECT base, sum(size) OVER (ORDER BY base) - size AS before FROM (
    SELECT base, octet_length(data) + octet_length(inputs) AS size FROM archon_journal.steps
    WHERE run_id = $1 AND base >= $2 ORDER BY base LIMIT $3
  ) AS sizes
) AS page JOIN archon_journal.steps AS s ON s.run_id = $1 AND s.base = page.base
WHERE page.before < $4::bigint ORDER BY s.base
"""
ADD_AUDIT: Final = """
INSERT INTO archon_journal.audit (chain, tenant, time, identity, action, run_id, data)
SELECT * FROM unnest($1::text[], $2::text[], $3::float8[], $4::text[], $5::text[], $6::text[], $7::bytea[])
"""
UNLINKED: Final = """
SELECT row_id, data FROM archon_journal.audit WHERE number = 0
  AND (chain = $1 OR chain NOT IN (SELECT owner FROM archon_journal.owners)) ORDER BY row_id LIMIT $2
"""
_CHAINS: Final = """
WITH RECURSIVE chains AS (
  (SELECT chain FROM archon_journal.audit WHERE number > 0 ORDER BY chain LIMIT 1)
  UNION ALL
  SELECT (SELECT a.chain FROM archon_journal.audit AS a WHERE a.number > 0 AND a.chain > chains.chain
    ORDER BY a.chain LIMIT 1) FROM chains WHERE chains.chain IS NOT NULL
)
"""
"""A scan along the index that skips from chain to chain."""

HEADS: Final = f"""
{_CHAINS}
SELECT head.chain, head.number, head.link FROM chains CROSS JOIN LATERAL (
  SELECT * FROM archon_journal.audit AS a WHERE a.chain = chains.chain AND a.number > 0 ORDER BY a.number DESC LIMIT 1
) AS head ORDER BY head.row_id DESC LIMIT $1
"""
LINK: Final = """
UPDATE archon_journal.audit AS a SET chain = $1, number = g.number, digest = g.digest, link = g.link, seal = g.seal
FROM unnest($2::bigint[], $3::bigint[], $4::bytea[], $5::bytea[], $6::bytea[]) AS g (row_id, number, digest, link, seal)
WHERE a.row_id = g.row_id AND a.number = 0 RETURNING a.row_id
"""
ENTRIES: Final = """
SELECT row_id, data FROM archon_journal.audit WHERE tenant = $1 AND ($2::bigint = 0 OR row_id < $2)
  AND octet_length(data) > 0 AND ($3::float8 = 0 OR time >= $3) AND ($4::float8 = 0 OR time < $4)
  AND $5 IN ('', identity) AND $6 IN ('', action) AND $7 IN ('', run_id)
ORDER BY row_id DESC LIMIT $8
"""
LINKS: Final = """
SELECT chain, number, digest, link, seal, data FROM archon_journal.audit
WHERE number > 0 AND (chain, number) > ($1, $2) ORDER BY chain, number LIMIT $3
"""
ANCHORS: Final = f"""
{_CHAINS}
SELECT chains.chain, anchor.number FROM chains CROSS JOIN LATERAL (
  SELECT number FROM archon_journal.audit AS a WHERE a.chain = chains.chain AND a.number > 0 AND a.time < $1 AND (
    a.seal IS NOT NULL OR NOT EXISTS (
      SELECT 1 FROM archon_journal.audit AS b WHERE b.chain = a.chain AND b.number > 0 AND b.seal IS NOT NULL
    )
  ) ORDER BY a.number DESC LIMIT 1
) AS anchor
"""
TRIM: Final = """
WITH kept AS (
  UPDATE archon_journal.audit SET data = '' WHERE chain = $1 AND number = $2 AND number > 0 AND octet_length(data) > 0
  RETURNING row_id
), gone AS (
  DELETE FROM archon_journal.audit WHERE chain = $1 AND number > 0 AND number < $2 RETURNING row_id
)
SELECT (SELECT count(*) FROM kept) + (SELECT count(*) FROM gone)
"""


class PostgresChains(PostgresOwners):
    """The ChainStore part of PostgresJournal."""

    async def recorded_steps(
        self, run_id: str, after_seq: int = 0, limit: int = 500, max_bytes: int = PAGE_BYTES
    ) -> list[RecordedStep]:
        rows = await self._connections.fetch(RECORDED, run_id, after_seq, limit, max_bytes)
        return [RecordedStep(row[0], row[1], row[2], row[3], row[4] or b"", row[5] or b"") for row in rows]

    async def add_audit(self, rows: Sequence[AuditRow]) -> None:
        columns = zip(*((r.owner, r.tenant, r.time, r.identity, r.action, r.run_id, r.data) for r in rows), strict=True)
        await self._connections.fetch(ADD_AUDIT, *map(list, columns))

    async def unlinked_audit(self, owner: str, limit: int) -> list[tuple[int, bytes]]:
        return [(row[0], row[1]) for row in await self._connections.fetch(UNLINKED, owner, limit)]

    async def audit_heads(self, limit: int) -> list[tuple[str, int, bytes]]:
        return [(row[0], row[1], row[2] or b"") for row in await self._connections.fetch(HEADS, limit)]

    async def link_audit(self, chain: str, rows: Sequence[LinkedRow]) -> bool:
        values = [(row.row_id, row.number, row.digest, row.link, row.seal or None) for row in rows]

        async def work(connection: Connection) -> None:
            linked = await connection.fetch(LINK, chain, *map(list, zip(*values, strict=True)))
            if len(linked) != len(rows):
                raise Aborted("another process has linked one of them")  # rolls the transaction back

        try:
            await self._connections.transact(work)
        except Aborted:
            return False
        return True

    async def audit_entries(self, wanted: AuditFilter, below: int, limit: int) -> list[tuple[int, bytes]]:
        values = (wanted.tenant, below, wanted.after, wanted.before, wanted.identity, wanted.action, wanted.run_id)
        return [(row[0], row[1]) for row in await self._connections.fetch(ENTRIES, *values, limit)]

    async def audit_links(self, after: tuple[str, int], limit: int) -> list[AuditLink]:
        rows = await self._connections.fetch(LINKS, *after, limit)
        return [AuditLink(row[0], row[1], *(value or b"" for value in row[2:])) for row in map(tuple, rows)]

    async def trim_audit(self, before: float) -> int:
        gone = 0
        for chain, number in await self._connections.fetch(ANCHORS, before):
            gone += int((await self._connections.fetch(TRIM, chain, number))[0][0])
        return gone
