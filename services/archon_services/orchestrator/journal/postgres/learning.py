"""Learned weights in PostgreSQL."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from archon_services.orchestrator.journal.learning import MAX_VERSIONS, EvidenceRow, LearnedRow, UnlearnedRow
from archon_services.orchestrator.journal.postgres.owners import PostgresOwners
from archon_services.postgres.connections import Connection

_ENDS: Final = """
SELECT run_id, tenant, ended_at FROM archon_journal.runs AS r
WHERE ended_at > 0 AND ended_at > $1 AND NOT compacted AND tenant <> ALL($3::text[]) AND NOT EXISTS (
  SELECT 1 FROM archon_journal.learned_outcomes AS o WHERE o.run_id = r.run_id AND o.source = ''
) ORDER BY ended_at, run_id LIMIT $2
"""
_RATINGS: Final = """
SELECT g.run_id, r.tenant, g.time, true, g.identity, g.stars
FROM archon_journal.ratings AS g JOIN archon_journal.runs AS r ON r.run_id = g.run_id
WHERE g.time > $1 AND r.tenant <> ALL($3::text[]) AND NOT EXISTS (
  SELECT 1 FROM archon_journal.learned_outcomes AS o WHERE o.run_id = g.run_id AND o.source = 'rating/' || g.identity
) ORDER BY g.time, g.run_id, g.identity LIMIT $2
"""
_EVIDENCE: Final = "SELECT revision, data FROM archon_journal.learned_evidence WHERE tenant = $1"
_VERSIONS: Final = """
SELECT tenant, "version", "time", data FROM archon_journal.learned_versions
WHERE tenant = $1 AND ($2::bigint = 0 OR "version" < $2) ORDER BY "version" DESC LIMIT $3
"""
_TENANTS: Final = "SELECT DISTINCT tenant FROM archon_journal.learned_versions ORDER BY tenant"
_LOCK: Final = "SELECT pg_advisory_xact_lock(hashtext('archon_journal.learned'), hashtext($1))"
_PUT_EVIDENCE: Final = """
INSERT INTO archon_journal.learned_evidence (tenant, revision, data) VALUES ($1, $2, $3)
ON CONFLICT (tenant) DO UPDATE SET revision = excluded.revision, data = excluded.data
"""
_HAS_VERSION: Final = 'SELECT 1 FROM archon_journal.learned_versions WHERE tenant = $1 AND "version" = $2'
_PUT_VERSION: Final = """
INSERT INTO archon_journal.learned_versions (tenant, "version", "time", data) VALUES ($1, $2, $3, $4)
"""
_TRIM: Final = 'DELETE FROM archon_journal.learned_versions WHERE tenant = $1 AND "version" <= $2'
_MARKED: Final = """
SELECT 1 FROM archon_journal.learned_outcomes AS o JOIN unnest($1::text[], $2::text[]) AS n (run_id, source)
  ON o.run_id = n.run_id AND o.source = n.source LIMIT 1
"""
_MARK: Final = """
INSERT INTO archon_journal.learned_outcomes (run_id, source) SELECT * FROM unnest($1::text[], $2::text[])
"""


class PostgresLearning(PostgresOwners):
    """The LearningStore part of PostgresJournal."""

    async def learned_versions(self, tenant: str, before: int = 0, limit: int = 100) -> list[LearnedRow]:
        return [LearnedRow(*row) for row in await self._connections.fetch(_VERSIONS, tenant, before, limit)]

    async def learned_evidence(self, tenant: str) -> EvidenceRow:
        rows = await self._connections.fetch(_EVIDENCE, tenant)
        return EvidenceRow(*rows[0]) if rows else EvidenceRow(0, b"")

    async def learned_tenants(self) -> list[str]:
        return [row[0] for row in await self._connections.fetch(_TENANTS)]

    async def unlearned(self, after: float, limit: int, without: Collection[str] = ()) -> list[UnlearnedRow]:
        values = (after, limit, list(without))
        ends = [UnlearnedRow(*row) for row in await self._connections.fetch(_ENDS, *values)]
        return ends + [UnlearnedRow(*row) for row in await self._connections.fetch(_RATINGS, *values)]

    async def learn(
        self,
        tenant: str,
        revision: int,
        evidence: bytes,
        outcomes: Sequence[UnlearnedRow] = (),
        version: LearnedRow | None = None,
    ) -> bool:
        runs, sources = [each.run_id for each in outcomes], [each.source for each in outcomes]
        stored = False

        async def work(connection: Connection) -> None:
            nonlocal stored
            stored = False
            await connection.execute(_LOCK, tenant)  # two replicas that read the same evidence would both store theirs
            rows = await connection.fetch(_EVIDENCE, tenant)
            if (rows[0][0] if rows else 0) != revision or await connection.fetch(_MARKED, runs, sources):
                return
            if version is not None:
                if await connection.fetch(_HAS_VERSION, tenant, version.version):
                    return
                await connection.execute(_PUT_VERSION, tenant, version.version, version.time, version.data)
                await connection.execute(_TRIM, tenant, version.version - MAX_VERSIONS)
            await connection.execute(_PUT_EVIDENCE, tenant, revision + 1, evidence)
            await connection.execute(_MARK, runs, sources)
            stored = True

        await self._connections.transact(work)
        return stored
