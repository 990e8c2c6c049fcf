"""The store in a PostgreSQL database, for one memory service at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Final, cast

from typing_extensions import override

from archon.errors import Unavailable
from archon_services.memory.domain.items import Publish, PublishOutcome, StoredItem
from archon_services.memory.store.postgres import publish_statements as sql
from archon_services.memory.store.postgres.exclusive_lock import ExclusiveLock
from archon_services.memory.store.postgres.publish_group import read_item
from archon_services.memory.store.postgres.publish_writer import PendingPublish, PublishWriter, SnapshotRead
from archon_services.memory.store.postgres.schema import SCHEMA
from archon_services.memory.store.postgres.working_store import PostgresWorkingStore
from archon_services.memory.store.postgres.working_writer import PendingWrite, WorkingWriter
from archon_services.memory.store.sql_store import ItemFeed, SqlStore, system_clock, with_timeout
from archon_services.postgres.admission import admit
from archon_services.postgres.connections import POOL_SIZE, Connections, dial
from archon_services.postgres.dsn import parse_dsn
from archon_services.postgres.errors import to_archon_error
from archon_services.postgres.group_commit import GroupCommit
from archon_services.postgres.migrations import migrate

APPLICATION: Final = "archon-memory"

_OWN: Final = 3
"""Connections besides the pool's: for publishes, working memory and the lock."""

LEAST_CONNECTIONS: Final = _OWN + 1
MOST_CONNECTIONS: Final = _OWN + POOL_SIZE


class PostgresStore(SqlStore):
    """Implements MemoryStore as an async context manager. Entering migrates the schema to its newest revision.

    Raises InvalidArgument if the address is malformed. Entering raises FailedPrecondition if another memory service
    uses the database, a newer version of Archon wrote it, the server refuses this user or has too few connections, or a
    pooler before it shares sessions; and Unavailable.
    """

    def __init__(self, dsn: str, *, clock: Callable[[], float] = system_clock, feed: ItemFeed | None = None) -> None:
        super().__init__(clock, feed)
        self._dsn = parse_dsn(dsn)
        connect = partial(dial, self._dsn, APPLICATION)
        address = self._dsn.redacted
        self._connections = Connections(self._dsn, APPLICATION)
        self._publish_commits = GroupCommit[PendingPublish | SnapshotRead, PublishOutcome | list[StoredItem]](
            connect, PublishWriter(self._announce_late_commit).send, id, address=address
        )
        self._working_commits = GroupCommit[PendingWrite, Any](connect, WorkingWriter().send, id, address=address)
        self._lock = ExclusiveLock(connect, self._on_lock_lost, address)
        self._lock_lost = False
        self.working = PostgresWorkingStore(self._working_commits, self._connections, clock, self._check_ownership)

    @override
    async def __aenter__(self) -> PostgresStore:
        try:
            granted = await admit(self._dsn, APPLICATION, least=LEAST_CONNECTIONS, most=MOST_CONNECTIONS)
            self._connections.size = granted - _OWN
            await migrate(self._dsn, SCHEMA, APPLICATION)
            await self._connections.open()
            await self._lock.acquire()
        except Exception as error:
            await self.__aexit__()
            raise to_archon_error(error, self._dsn.redacted) from error
        self._publish_commits.start()
        self._working_commits.start()
        return self

    @override
    async def __aexit__(self, *_: object) -> None:
        self.end_watches()
        await asyncio.gather(self._publish_commits.close(), self._working_commits.close())
        await self._finish_publishes()
        await self._connections.close()
        await self._lock.release()

    def _on_lock_lost(self) -> None:
        self._lock_lost = True
        self.end_watches()

    def _announce_late_commit(self, request: Publish, outcome: PublishOutcome) -> None:
        self._announce(request, outcome[1])

    def _check_ownership(self) -> None:
        if self._lock_lost:
            raise Unavailable("another memory service has taken over the database", retry_delay=1.0)

    @override
    async def _commit(self, request: Publish, now: float) -> PublishOutcome:
        self._check_ownership()
        return cast(PublishOutcome, await self._publish_commits.do(PendingPublish(request, now)))

    @override
    async def _snapshot(self, tenant: str, scope: str) -> list[StoredItem]:
        self._check_ownership()
        return cast(list[StoredItem], await self._publish_commits.do(SnapshotRead(tenant, scope)))

    @override
    async def items(self, tenant: str, scope: str) -> list[StoredItem]:
        self._check_ownership()
        rows = await with_timeout(self._connections.fetch(sql.SCOPE_ITEMS, tenant, scope))
        return [read_item(row) for row in rows]

    @override
    async def clear(self, tenant: str, scope: str) -> int:
        self._check_ownership()
        # If the connection is lost and the statement repeated, the count may be 0.
        (row,) = await with_timeout(self._connections.fetch(sql.CLEAR, tenant, scope, self._clock()))
        return int(row[0])

    @override
    async def load_role_graph(self) -> str:
        rows = await with_timeout(self._connections.fetch(sql.ROLE_GRAPH))
        return str(rows[0][0]) if rows else ""

    @override
    async def save_role_graph(self, graph_json: str) -> None:
        await with_timeout(self._connections.fetch(sql.SAVE_ROLE_GRAPH, graph_json))
