"""The journal in a PostgreSQL database, which several orchestrators may share."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from archon_services.orchestrator.journal.postgres import statements as sql
from archon_services.orchestrator.journal.postgres.append import send_appends
from archon_services.orchestrator.journal.postgres.create import Creation, send_creations
from archon_services.orchestrator.journal.postgres.owners import COMMANDS, PostgresOwners
from archon_services.orchestrator.journal.postgres.schema import SCHEMA
from archon_services.orchestrator.journal.rows import Append, NewRun, OutboxRow, Outcome, RunRow
from archon_services.orchestrator.journal.session_history import Conversation, conversation_of
from archon_services.postgres.compile import compile_statement
from archon_services.postgres.connections import Connections, dial
from archon_services.postgres.dsn import parse_dsn
from archon_services.postgres.group_commit import GroupCommit
from archon_services.postgres.listener import Listener
from archon_services.postgres.migrations import migrate

_log = logging.getLogger(__name__)

APPLICATION: Final = "archon-orchestrator"
"""What the database's own views call us."""


class PostgresJournal(PostgresOwners):
    """Appends and new runs each go through a lane of their own, in groups; the rest through a small pool; one
    listens: eight connections at most. Every call ends within some 20 seconds, and every error is one of our tree.

    Raises InvalidArgument where the address can't be read.
    """

    durability: str = "full"

    def __init__(self, dsn: str) -> None:
        self._dsn = parse_dsn(dsn)
        super().__init__(Connections(self._dsn, APPLICATION), Connections(self._dsn, APPLICATION, size=1))
        connect = partial(dial, self._dsn, APPLICATION)
        address = self._dsn.redacted
        self._connect = connect
        self._listener: Listener | None = None
        self._appends = GroupCommit[Append, Outcome](connect, send_appends, lambda one: one.run_id, address=address)
        self._creations = GroupCommit[Creation, tuple[str, bool]](
            connect, send_creations, lambda one: one.new.run_id, address=address
        )

    async def open(self) -> None:
        """Brings the schema to its newest revision; several may at once. Raises FailedPrecondition where a newer
        version of Archon wrote it or the database refuses us, Unavailable where it isn't there."""
        await migrate(self._dsn, SCHEMA, APPLICATION)
        await self._connections.open()
        await self._beats.open()
        if (await self._connections.fetch("SELECT current_setting('fsync')"))[0][0] != "on":
            _log.warning(
                "the database at %s has fsync off: a power cut loses what was acknowledged", self._dsn.redacted
            )
        self._appends.start()
        self._creations.start()

    def listen(self, heard: Callable[[str], None]) -> None:
        """See the port."""
        self._listener = Listener(self._connect, COMMANDS, heard, address=self._dsn.redacted)
        self._listener.start()

    async def close(self) -> None:
        """Sends what waits, then lets go of the database. Idempotent."""
        if self._listener is not None:
            await self._listener.close()
        await self._creations.close()
        await self._appends.close()
        await self._beats.close()
        await self._connections.close()

    async def create(self, new: NewRun, first: Append) -> tuple[str, bool]:
        """See the port. Raises AlreadyExists where the run's id is taken."""
        return await self._creations.do(Creation(new, first))

    async def request(self, tenant: str, request_id: str) -> tuple[bytes, str] | None:
        """See the port."""
        rows = await self._connections.fetch(sql.REQUEST, tenant, request_id)
        return (rows[0][0], rows[0][1]) if rows else None

    async def append(self, append: Append) -> Outcome:
        """See the port."""
        return await self._appends.do(append)

    async def conversation(self, tenant: str, session_id: str, role: str) -> Conversation:
        """See the port."""
        return conversation_of(
            [(row[0], row[1]) for row in await self._connections.fetch(sql.CONVERSATION, tenant, session_id, role)]
        )

    async def events(self, run_id: str, after_seq: int, limit: int = 500) -> list[bytes]:
        """See the port."""
        return [row[0] for row in await self._connections.fetch(sql.EVENTS, run_id, after_seq, limit)]

    async def inputs(self, run_id: str) -> list[tuple[int, bytes]]:
        """See the port."""
        return [(row[0], row[1]) for row in await self._connections.fetch(sql.INPUTS, run_id)]

    async def run(self, run_id: str) -> RunRow | None:
        """See the port."""
        rows = await self._connections.fetch(sql.RUN, run_id)
        return sql.run_row(rows[0]) if rows else None

    async def runs(
        self,
        *,
        tenant: str,
        session_id: str = "",
        states: Sequence[int] = (),
        before: tuple[float, str] | None = None,
        limit: int = 100,
    ) -> list[RunRow]:
        """See the port."""
        text, values = compile_statement(sql.list_runs(tenant, session_id, states, before, limit))
        return [sql.run_row(row) for row in await self._connections.fetch(text, *values)]

    async def records(
        self, run_id: str, *, role: str = "", after: int = 0, limit: int = 100
    ) -> list[tuple[int, bytes]]:
        """See the port."""
        text, values = compile_statement(sql.list_records(run_id, role, after, limit))
        return [(row[0], row[1]) for row in await self._connections.fetch(text, *values)]

    async def outbox(self, owner: str, limit: int = 100) -> list[OutboxRow]:
        """See the port."""
        return [sql.outbox_row(row) for row in await self._connections.fetch(sql.OUTBOX, owner, limit)]

    async def unpublished(self, scope: str) -> bool:
        """See the port."""
        return bool(await self._connections.fetch(sql.UNPUBLISHED, scope))

    async def published(self, row_ids: Sequence[int]) -> None:
        """See the port."""
        await self._connections.fetch(sql.PUBLISHED, list(row_ids))

    async def compactable(self, ended_before: float, limit: int = 100) -> list[str]:
        """See the port."""
        return [row[0] for row in await self._connections.fetch(sql.COMPACTABLE, ended_before, limit)]

    async def compact(self, run_id: str, summary: bytes) -> None:
        """See the port."""
        await self._connections.fetch(sql.COMPACT, run_id, summary)

    async def delete(self, ended_before: float, now: float, request_ttl: float) -> int:
        """See the port. A few runs a statement, so that none takes long."""
        await self._connections.fetch(sql.FORGET_REQUESTS, now)
        await self._connections.fetch(sql.FORGET_TURNS, ended_before)
        deleted = 0
        while gone := await self._connections.fetch(sql.DELETE, ended_before, now + request_ttl):
            deleted += len(gone)
        return deleted
