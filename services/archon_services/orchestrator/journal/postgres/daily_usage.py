"""Daily counts in PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from archon_services.orchestrator.journal.daily_usage import DailyUsageRow, folded
from archon_services.orchestrator.journal.postgres.owners import PostgresOwners
from archon_services.postgres.connections import Connection

_COLUMNS: Final = "owner, day, tenant, identity, runs, bytes, tokens, micro_usd"
_COUNTS: Final = ("runs", "bytes", "tokens", "micro_usd")

# FOR KEY SHARE: beats go on, and an expiry waits, so that they are there when the incarnation's rows are added up.
SAVE_USAGE: Final = f"""
WITH living AS (SELECT owner FROM archon_journal.owners WHERE owner = $1 FOR KEY SHARE), put AS (
  INSERT INTO archon_journal.daily_usage ({_COLUMNS})
  SELECT living.owner, r.* FROM living, unnest($2::bigint[], $3::text[], $4::text[], $5::bigint[], $6::bigint[],
    $7::bigint[], $8::bigint[]) AS r
  ON CONFLICT (day, owner, tenant, identity) DO UPDATE SET {", ".join(f"{name} = excluded.{name}" for name in _COUNTS)}
)
SELECT owner FROM living
"""
USAGE: Final = f"SELECT {_COLUMNS} FROM archon_journal.daily_usage WHERE day = $1 AND owner <> $2"
TAKE_USAGE: Final = f"""
DELETE FROM archon_journal.daily_usage
WHERE day < $1 OR owner NOT IN (SELECT owner FROM archon_journal.owners) RETURNING {_COLUMNS}
"""
LOCK_USAGE: Final = "SELECT pg_advisory_xact_lock(hashtext('archon_journal.daily_usage'))"
PUT_USAGE: Final = f"INSERT INTO archon_journal.daily_usage ({_COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)"


class PostgresDailyUsage(PostgresOwners):
    """The DailyUsageStore part of PostgresJournal."""

    async def save_daily_usage(self, owner: str, rows: Sequence[DailyUsageRow]) -> bool:
        columns = [list(column) for column in zip(*map(_values, rows), strict=True)] or [[] for _ in range(7)]
        return bool(await self._connections.fetch(SAVE_USAGE, owner, *columns))

    async def daily_usage(self, day: int, besides: str) -> list[DailyUsageRow]:
        return [DailyUsageRow(*row) for row in await self._connections.fetch(USAGE, day, besides)]

    async def fold_daily_usage(self, before: int) -> None:
        async def work(connection: Connection) -> None:
            await connection.execute(LOCK_USAGE)  # two replicas that start at once would add the same row
            gone = [DailyUsageRow(*row) for row in await connection.fetch(TAKE_USAGE, before)]
            rows = [(row.owner, *_values(row)) for row in folded(gone, before)]
            if rows:
                await connection.executemany(PUT_USAGE, rows)

        await self._connections.transact(work)


def _values(row: DailyUsageRow) -> tuple[int, str, str, int, int, int, int]:
    return row.day, row.tenant, row.identity, row.runs, row.bytes, row.tokens, row.micro_usd
