"""Owners and commands in PostgreSQL, where other orchestrators work on the same rows at the same time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from archon_services.common.audit_entry import AuditRow
from archon_services.orchestrator.journal.owners import CommandRow, OwnerRow
from archon_services.orchestrator.journal.postgres.statements import LAST_SEQ, RUN_COLUMNS
from archon_services.orchestrator.journal.rows import RunRow
from archon_services.postgres.connections import Connections

NOW: Final = "SELECT extract(epoch FROM clock_timestamp())::float8"
ENTER: Final = (
    "INSERT INTO archon_journal.owners (owner, address, revision, beat) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING"
)
BEAT: Final = "UPDATE archon_journal.owners SET beat = beat + 1, address = $2 WHERE owner = $1 RETURNING beat"
LIVING: Final = "SELECT owner, address, revision, beat FROM archon_journal.owners ORDER BY owner"
EXPIRE: Final = "DELETE FROM archon_journal.owners WHERE owner = $1 AND beat = $2"
"""If a beat is being written, this waits for it and then finds another counter."""

LIVES: Final = "SELECT 1 FROM archon_journal.owners WHERE owner = $1"
LEAVE: Final = """
WITH released AS (UPDATE archon_journal.runs SET owner = '' WHERE owner = $1 AND ended_at = 0)
DELETE FROM archon_journal.owners WHERE owner = $1
"""

_UNOWNED: Final = "r.owner NOT IN (SELECT owner FROM archon_journal.owners)"
_SET: Final = f"""
SET owner = $1, epoch = r.epoch + 1, claimed_seq = {LAST_SEQ},
    stalled = CASE WHEN r.claimed_seq = {LAST_SEQ} THEN r.stalled + (r.owner <> '')::integer ELSE 0 END
"""

# `was` is the run as this statement saw it at first. If another claim came in between, the locked row has another epoch
# and is left alone: the list of live owners may be older than its owner's entry.
CLAIM: Final = f"""
UPDATE archon_journal.runs AS r {_SET} FROM archon_journal.runs AS was
WHERE r.run_id = $2 AND was.run_id = $2 AND was.epoch = r.epoch AND r.ended_at = 0 AND (r.owner = $1 OR {_UNOWNED})
RETURNING {RUN_COLUMNS}, was.owner = ''
"""
CLAIM_SOME: Final = f"""
WITH free AS (
  SELECT r.run_id, r.owner = '' AS released FROM archon_journal.runs AS r
  JOIN archon_journal.runs AS was ON was.run_id = r.run_id AND was.epoch = r.epoch
  WHERE r.ended_at = 0 AND r.revision <= $2 AND {_UNOWNED}
  ORDER BY r.created_at, r.run_id LIMIT $3 FOR UPDATE OF r SKIP LOCKED
)
UPDATE archon_journal.runs AS r {_SET}, revision = $2 WHERE r.run_id = ANY(ARRAY(SELECT run_id FROM free))
RETURNING {RUN_COLUMNS}, r.run_id = ANY(ARRAY(SELECT run_id FROM free WHERE released))
"""
NEWER_RUNS: Final = f"""
SELECT r.run_id FROM archon_journal.runs AS r WHERE r.ended_at = 0 AND r.revision > $1 AND {_UNOWNED} LIMIT $2
"""
OPEN_RUNS: Final = "SELECT run_id FROM archon_journal.runs WHERE ended_at = 0 ORDER BY created_at, run_id"
OPEN_RUNS_OF: Final = (
    "SELECT run_id FROM archon_journal.runs WHERE ended_at = 0 AND owner = $1 ORDER BY created_at, run_id"
)
COMMANDS: Final = "archon_journal_commands"
POST: Final = f"""
WITH posted AS (INSERT INTO archon_journal.commands (run_id, data) VALUES ($1, $2) RETURNING row_id), logged AS (
  INSERT INTO archon_journal.audit (chain, tenant, time, identity, action, run_id, data)
  SELECT * FROM unnest($3::text[], $4::text[], $5::float8[], $6::text[], $7::text[], $8::text[], $9::bytea[])
)
SELECT posted.row_id, (SELECT pg_notify('{COMMANDS}', owner) FROM archon_journal.runs WHERE run_id = $1) FROM posted
"""
"""A NOTIFY takes a lock of the whole server at commit. Commands are rare enough for that; steps are not."""

POSTED: Final = """
SELECT c.row_id, c.run_id, c.data FROM archon_journal.commands AS c JOIN archon_journal.runs AS r USING (run_id)
WHERE r.owner = $1 ORDER BY c.row_id LIMIT $2
"""
IS_POSTED: Final = "SELECT 1 FROM archon_journal.commands WHERE row_id = $1"
DROP: Final = "DELETE FROM archon_journal.commands WHERE row_id = ANY($1::bigint[])"


class PostgresOwners:
    """The Owners part of PostgresJournal. Beats use a connection of their own: a long query must not delay a lease."""

    shared = True

    def __init__(self, connections: Connections, beats: Connections) -> None:
        self._connections = connections
        self._beats = beats

    async def now(self) -> float:
        return float((await self._connections.fetch(NOW))[0][0])

    async def enter(self, owner: OwnerRow) -> None:
        await self._beats.fetch(ENTER, owner.owner, owner.address, owner.revision, owner.beat)

    async def beat(self, owner: str, address: str) -> bool:
        return bool(await self._beats.fetch(BEAT, owner, address))

    async def live_owners(self) -> list[OwnerRow]:
        return [OwnerRow(*row) for row in await self._connections.fetch(LIVING)]

    async def expire(self, owner: str, beat: int) -> bool:
        await self._connections.fetch(EXPIRE, owner, beat)
        return not await self._connections.fetch(LIVES, owner)

    async def leave(self, owner: str) -> None:
        await self._beats.fetch(LEAVE, owner)

    async def claim(self, run_id: str, owner: str) -> RunRow | None:
        # None as well if another replica claims it at the same moment. Sent again after a lost connection it may take
        # two epochs, which does no harm.
        rows = await self._connections.fetch(CLAIM, owner, run_id)
        return RunRow(*rows[0]) if rows else None

    async def claim_some(self, owner: str, limit: int, revision: int) -> list[RunRow]:
        # Runs that were claimed while the connection died are found through `open_runs`.
        rows = await self._connections.fetch(CLAIM_SOME, owner, revision, limit)
        return sorted((RunRow(*row) for row in rows), key=lambda row: (row.created_at, row.run_id))

    async def newer_runs(self, revision: int, limit: int) -> list[str]:
        return [row[0] for row in await self._connections.fetch(NEWER_RUNS, revision, limit)]

    async def open_runs(self, owner: str = "") -> list[str]:
        query = (OPEN_RUNS_OF, owner) if owner else (OPEN_RUNS,)
        return [row[0] for row in await self._connections.fetch(*query)]

    async def post(self, run_id: str, data: bytes, audit: AuditRow | None = None) -> int:
        # Sent again after a lost connection it may be stored twice, like a command of two callers.
        rows = [audit] if audit is not None else []
        columns = [
            [row.owner for row in rows],
            [row.tenant for row in rows],
            [row.time for row in rows],
            [row.identity for row in rows],
            [row.action for row in rows],
            [row.run_id for row in rows],
            [row.data for row in rows],
        ]
        return int((await self._connections.fetch(POST, run_id, data, *columns))[0][0])

    async def is_posted(self, row_id: int) -> bool:
        return bool(await self._connections.fetch(IS_POSTED, row_id))

    async def posted(self, owner: str, limit: int = 1000) -> list[CommandRow]:
        return [CommandRow(*row) for row in await self._connections.fetch(POSTED, owner, limit)]

    async def drop(self, row_ids: Sequence[int]) -> None:
        await self._connections.fetch(DROP, list(row_ids))
