"""Learned weights of the SQLite journal."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Sequence

from archon_services.orchestrator.journal.learning import MAX_VERSIONS, EvidenceRow, LearnedRow, UnlearnedRow
from archon_services.orchestrator.journal.sqlite.owners import SqliteOwners

_ENDS = """
SELECT run_id, tenant, ended_at FROM runs WHERE ended_at > 0 AND ended_at > ?1 AND compacted = 0
AND tenant NOT IN (SELECT value FROM json_each(?3)) AND NOT EXISTS (
  SELECT 1 FROM learned_outcomes AS o WHERE o.run_id = runs.run_id AND o.source = ''
) ORDER BY ended_at, run_id LIMIT ?2
"""
_RATINGS = """
SELECT g.run_id, r.tenant, g.time, 1, g.identity, g.stars FROM ratings AS g JOIN runs AS r ON r.run_id = g.run_id
WHERE g.time > ?1 AND r.tenant NOT IN (SELECT value FROM json_each(?3)) AND NOT EXISTS (
  SELECT 1 FROM learned_outcomes AS o WHERE o.run_id = g.run_id AND o.source = 'rating/' || g.identity
) ORDER BY g.time, g.run_id, g.identity LIMIT ?2
"""
_EVIDENCE = "SELECT revision, data FROM learned_evidence WHERE tenant = ?"
_TRIM = "DELETE FROM learned_versions WHERE tenant = ? AND version <= ?"


class SqliteLearning(SqliteOwners):
    """The LearningStore part of SqliteJournal."""

    async def learned_versions(self, tenant: str, before: int = 0, limit: int = 100) -> list[LearnedRow]:
        sql = (
            "SELECT tenant, version, time, data FROM learned_versions WHERE tenant = ?1 AND (?2 = 0 OR version < ?2) "
            "ORDER BY version DESC LIMIT ?3"
        )
        return [LearnedRow(*row) for row in await self._read(sql, (tenant, before, limit))]

    async def learned_evidence(self, tenant: str) -> EvidenceRow:
        rows = await self._read(_EVIDENCE, (tenant,))
        return EvidenceRow(*rows[0]) if rows else EvidenceRow(0, b"")

    async def learned_tenants(self) -> list[str]:
        return [row[0] for row in await self._read("SELECT DISTINCT tenant FROM learned_versions ORDER BY tenant")]

    async def unlearned(self, after: float, limit: int, without: Collection[str] = ()) -> list[UnlearnedRow]:
        values = (after, limit, json.dumps(list(without)))
        ends = [UnlearnedRow(*row) for row in await self._read(_ENDS, values)]
        ratings = await self._read(_RATINGS, values)
        return ends + [UnlearnedRow(row[0], row[1], row[2], bool(row[3]), row[4], row[5]) for row in ratings]

    async def learn(
        self,
        tenant: str,
        revision: int,
        evidence: bytes,
        outcomes: Sequence[UnlearnedRow] = (),
        version: LearnedRow | None = None,
    ) -> bool:
        def work(db: sqlite3.Connection) -> bool:
            present = db.execute(_EVIDENCE, (tenant,)).fetchone()
            if (present[0] if present is not None else 0) != revision:
                return False
            marked = "SELECT 1 FROM learned_outcomes WHERE run_id = ? AND source = ?"
            marks = [(outcome.run_id, outcome.source) for outcome in outcomes]
            if any(db.execute(marked, mark).fetchone() is not None for mark in marks):
                return False
            if version is not None:
                key = (tenant, version.version)
                if db.execute("SELECT 1 FROM learned_versions WHERE tenant = ? AND version = ?", key).fetchone():
                    return False
                row = (*key, version.time, version.data)
                db.execute("INSERT INTO learned_versions (tenant, version, time, data) VALUES (?, ?, ?, ?)", row)
                db.execute(_TRIM, (tenant, version.version - MAX_VERSIONS))
            db.execute(
                "INSERT OR REPLACE INTO learned_evidence (tenant, revision, data) VALUES (?, ?, ?)",
                (tenant, revision + 1, evidence),
            )
            db.executemany("INSERT INTO learned_outcomes (run_id, source) VALUES (?, ?)", marks)
            return True

        stored: bool = await self._write(work, full=True)
        return stored
