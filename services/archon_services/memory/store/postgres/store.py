"""The store in a PostgreSQL database, for one memory service at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Final, cast

from archon.errors import Unavailable
from archon_services.memory.store.feed import Feed
from archon_services.memory.store.port import Publish, Published, StoredItem
from archon_services.memory.store.postgres import statements as sql
from archon_services.memory.store.postgres.exclusive_lock import Sole
from archon_services.memory.store.postgres.group import read_item
from archon_services.memory.store.postgres.sender import Outcome, Publishing, Sender, Snapshot
from archon_services.memory.store.postgres.working import PostgresWorking, WorkingSender, Writing
from archon_services.memory.store.sql_store import FeedingStore, system_clock, within
from archon_services.postgres.connections import Connections, dial
from archon_services.postgres.dsn import parse_dsn
from archon_services.postgres.errors import explained
from archon_services.postgres.group_commit import Lane
from archon_services.postgres.migrations import migrate

APPLICATION: Final = "archon-memory"


class PostgresStore(FeedingStore):
    """See MemoryStore. Use it as an async context manager: entering brings the schema to its newest revision. Raises
    InvalidArgument where the address can't be read; on entering FailedPrecondition where another memory service works
    on the database, a newer version of Archon wrote it, or it refuses us, and Unavailable."""

    def __init__(self, dsn: str, *, clock: Callable[[], float] = system_clock, feed: Feed | None = None) -> None:
        super().__init__(clock, feed)
        self._dsn = parse_dsn(dsn)
        connect = partial(dial, self._dsn, APPLICATION)
        self._connections = Connections(self._dsn, APPLICATION)
        self._sender = Sender(self._found)
        self._lane = Lane[Publishing | Snapshot, Outcome | list[StoredItem]](
            connect, self._sender.send, id, where=self._dsn.shown
        )
        self._sole = Sole(connect, self._taken_over, self._dsn.shown)
        self._writes = Lane[Writing, Any](connect, WorkingSender().send, id, where=self._dsn.shown)
        self.working = PostgresWorking(self._writes, self._connections, clock, self._check)
        self._over = False

    async def __aenter__(self) -> PostgresStore:
        try:
            await migrate(self._dsn, sql.SCHEMA, APPLICATION)
            await self._connections.open()
            await self._sole.take()
        except Exception as error:
            await self.__aexit__()
            raise explained(error, self._dsn.shown) from error
        self._lane.start()
        self._writes.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.end_watches()
        await asyncio.gather(self._lane.close(), self._writes.close())
        await self._settled()
        await self._connections.close()
        await self._sole.close()

    def _taken_over(self) -> None:
        self._over = True
        self.end_watches()

    def _found(self, publish: Publish, outcome: Outcome) -> None:
        self._feed.tell((publish.tenant, publish.scope), outcome[1])

    def _check(self) -> None:
        if self._over:
            raise Unavailable("another memory service has taken this one's place", retry_delay=1.0)

    async def _commit(self, publish: Publish, now: float) -> tuple[list[Published], list[StoredItem]]:
        self._check()
        return cast(Outcome, await self._lane.do(Publishing(publish, now)))

    async def _snapshot(self, tenant: str, scope: str) -> list[StoredItem]:
        self._check()
        return cast(list[StoredItem], await self._lane.do(Snapshot(tenant, scope)))

    async def items(self, tenant: str, scope: str) -> list[StoredItem]:
        """See MemoryStore."""
        self._check()
        return [read_item(row) for row in await within(self._connections.fetch(sql.IN_SCOPE, tenant, scope))]

    async def clear(self, tenant: str, scope: str) -> int:
        """See MemoryStore. Repeated after a lost connection it may count none."""
        self._check()
        (row,) = await within(self._connections.fetch(sql.CLEAR, tenant, scope, self._clock()))
        return int(row[0])

    async def structure(self) -> str:
        """See MemoryStore."""
        rows = await within(self._connections.fetch(sql.STRUCTURE))
        return str(rows[0][0]) if rows else ""

    async def save_structure(self, structure: str) -> None:
        """See MemoryStore."""
        await within(self._connections.fetch(sql.SAVE_STRUCTURE, structure))
