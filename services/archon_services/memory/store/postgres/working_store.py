"""Working memory in PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Any

from archon.errors import ArchonError
from archon_services.memory.domain.working import MAX_PAGE_BYTES, Value, Write, Written
from archon_services.memory.store.postgres import working_statements as sql
from archon_services.memory.store.postgres.working_writer import PendingWrite
from archon_services.memory.store.sql_store import with_timeout
from archon_services.memory.store.value_watches import ValueBatch, ValueWatches
from archon_services.memory.store.working_writes import WritesInFlight
from archon_services.postgres.connections import Connections
from archon_services.postgres.group_commit import GroupCommit


class PostgresWorkingStore:
    """Implements WorkingStore. `check_ownership` raises if this service may no longer use the database."""

    def __init__(
        self,
        group_commit: GroupCommit[PendingWrite, Any],
        connections: Connections,
        clock: Callable[[], float],
        check_ownership: Callable[[], None],
    ) -> None:
        self._group_commit = group_commit
        self._connections = connections
        self._clock = clock
        self._check_ownership = check_ownership
        self._watches = ValueWatches()
        self._writes = WritesInFlight(self._write, self._watches.changed)

    async def write(self, request: Write) -> Written:
        self._check_ownership()
        return await self._writes.do(request)

    async def _write(self, request: Write) -> Written:
        written: Written = await self._group_commit.do(PendingWrite(request, self._clock()))
        return written

    async def value(self, tenant: str, scope: str, key: str) -> Value | None:
        self._check_ownership()
        rows = await with_timeout(self._connections.fetch(sql.VALUE, tenant, scope, self._clock(), key))
        return Value(*rows[0]) if rows else None

    async def values(
        self, tenant: str, scope: str, *, prefix: str = "", after: str = "", limit: int = 100
    ) -> tuple[list[Value], bool]:
        self._check_ownership()
        arguments = (tenant, scope, self._clock(), after, prefix, limit + 1, MAX_PAGE_BYTES)
        rows = (await with_timeout(self._connections.fetch(sql.PAGE, *arguments)))[:limit]
        return [Value(*row[:4]) for row in rows], bool(rows) and bool(rows[-1][4])

    def watch(self, tenant: str, scope: str, prefix: str = "") -> AsyncGenerator[ValueBatch, None]:
        return self._watches.watch(self, tenant, scope, prefix)

    def end_watches(self, error: ArchonError) -> None:
        self._watches.close(error)
