"""The journal in a PostgreSQL database, which several orchestrators may share."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any, Final

from archon.errors import DataLoss
from archon_services.orchestrator.journal.checksum import checked_inputs, checked_steps, of_run, read_outbox_row
from archon_services.orchestrator.journal.page import OPENING_BYTES, PAGE_BYTES
from archon_services.orchestrator.journal.postgres import statements as sql
from archon_services.orchestrator.journal.postgres.chains import PostgresChains
from archon_services.orchestrator.journal.postgres.commit import send_steps
from archon_services.orchestrator.journal.postgres.daily_usage import PostgresDailyUsage
from archon_services.orchestrator.journal.postgres.learning import PostgresLearning
from archon_services.orchestrator.journal.postgres.owners import COMMANDS
from archon_services.orchestrator.journal.postgres.retained import PostgresRetained
from archon_services.orchestrator.journal.postgres.schema import SCHEMA
from archon_services.orchestrator.journal.postgres.track_records import PostgresTrackRecords
from archon_services.orchestrator.journal.postgres.triggers import PostgresTriggers
from archon_services.orchestrator.journal.rows import (
    EndedRun,
    OutboxRow,
    Outcome,
    RunRow,
    SameRequest,
    Step,
    StepResult,
    StoredStep,
)
from archon_services.orchestrator.journal.session_history import Conversation, checked_conversation
from archon_services.postgres.admission import admit
from archon_services.postgres.compile import compile_statement
from archon_services.postgres.connections import POOL_SIZE, Connections, dial
from archon_services.postgres.dsn import parse_dsn
from archon_services.postgres.group_commit import GroupCommit
from archon_services.postgres.listener import Listener
from archon_services.postgres.migrations import migrate

_log = logging.getLogger(__name__)

APPLICATION: Final = "archon-orchestrator"
"""The application name that the database shows."""

_OWN: Final = 4
"""Connections besides the pool's: for creations, appends, heartbeats and notifications."""

LEAST_CONNECTIONS: Final = _OWN + 1
MOST_CONNECTIONS: Final = _OWN + POOL_SIZE

Result = Outcome | SameRequest


class PostgresJournal(
    PostgresTrackRecords, PostgresLearning, PostgresTriggers, PostgresRetained, PostgresDailyUsage, PostgresChains
):
    """Steps and new runs are each committed in groups over a connection of their own, the rest goes through a small
    pool, one connection listens: eight connections at most, five if the database has no more. Every call ends within
    about 20 seconds, and every error is an ArchonError.

    Raises InvalidArgument if the address cannot be parsed.
    """

    durability: str = "full"
    inline = False

    def __init__(self, dsn: str) -> None:
        self._dsn = parse_dsn(dsn)
        super().__init__(Connections(self._dsn, APPLICATION), Connections(self._dsn, APPLICATION, size=1))
        connect = partial(dial, self._dsn, APPLICATION)
        address = self._dsn.redacted
        self._connect = connect
        self._listener: Listener | None = None
        self._creations = GroupCommit[Step, Result](connect, send_steps, lambda step: step.run_id, address=address)
        self._appends = GroupCommit[Step, Result](connect, send_steps, lambda step: step.run_id, address=address)

    async def open(self) -> None:
        """Migrates the schema to its newest revision, which several replicas may do at once. Raises FailedPrecondition
        if a newer version of Archon wrote it, if the database refuses access or has too few connections, or if a pooler
        before it shares sessions; Unavailable if it cannot be reached."""
        granted = await admit(self._dsn, APPLICATION, least=LEAST_CONNECTIONS, most=MOST_CONNECTIONS)
        self._connections.size = granted - _OWN
        await migrate(self._dsn, SCHEMA, APPLICATION)
        await self._connections.open()
        await self._beats.open()
        if (await self._connections.fetch("SELECT current_setting('fsync')"))[0][0] != "on":
            _log.warning("fsync is off in the database at %s: a power cut loses acknowledged steps", self._dsn.redacted)
        self._creations.start()
        self._appends.start()

    def listen(self, on_command: Callable[[str], None]) -> None:
        self._listener = Listener(self._connect, COMMANDS, on_command, address=self._dsn.redacted)
        self._listener.start()

    async def close(self) -> None:
        """Commits queued steps, then closes all connections. Idempotent."""
        if self._listener is not None:
            await self._listener.close()
        await self._creations.close()
        await self._appends.close()
        await self._beats.close()
        await self._connections.close()

    def commit(self, steps: Sequence[Step]) -> asyncio.Future[list[StepResult]]:
        if not steps:
            nothing: asyncio.Future[list[StepResult]] = asyncio.get_running_loop().create_future()
            nothing.set_result([])
            return nothing
        lane = self._creations if all(step.new is not None for step in steps) else self._appends
        return lane.group(steps)

    async def request(self, tenant: str, request_id: str) -> tuple[bytes, str] | None:
        rows = await self._connections.fetch(sql.REQUEST, tenant, request_id)
        return (rows[0][0], rows[0][1]) if rows else None

    async def conversation(self, tenant: str, session_id: str, role: str) -> Conversation:
        rows = await self._connections.fetch(sql.CONVERSATION, tenant, session_id, role)
        return checked_conversation(tenant, session_id, role, map(tuple, rows))

    async def steps(
        self, run_id: str, after_seq: int = 0, limit: int = 500, max_bytes: int = PAGE_BYTES
    ) -> list[StoredStep]:
        rows = await self._fetch_run(run_id, sql.STEPS, run_id, after_seq, limit, max_bytes)
        return checked_steps(run_id, rows, after_seq)

    async def _fetch_run(self, run_id: str, text: str, *arguments: object) -> list[Any]:
        """Raises DataLoss with the id of the run if the database finds its own pages damaged."""
        try:
            return await self._connections.fetch(text, *arguments)
        except DataLoss as error:
            raise of_run(run_id, error) from error

    async def inputs(self, run_id: str) -> list[tuple[int, bytes]]:
        return checked_inputs(run_id, await self._fetch_run(run_id, sql.INPUTS, run_id))

    async def size(self, run_id: str) -> int:
        return int((await self._connections.fetch(sql.SIZE, run_id))[0][0])

    async def run(self, run_id: str) -> RunRow | None:
        rows = await self._connections.fetch(sql.RUN, run_id)
        return RunRow(*rows[0]) if rows else None

    async def runs(
        self,
        *,
        tenant: str,
        session_id: str = "",
        states: Sequence[int] = (),
        before: tuple[float, str] | None = None,
        since: float = 0.0,
        limit: int = 100,
    ) -> list[RunRow]:
        text, values = compile_statement(sql.list_runs(tenant, session_id, states, before, limit, since))
        return [RunRow(*row) for row in await self._connections.fetch(text, *values)]

    async def openings(self, run_ids: Sequence[str]) -> dict[str, bytes]:
        rows = await self._connections.fetch(sql.OPENINGS, list(run_ids), OPENING_BYTES)
        return {row[0]: row[1] for row in rows}

    async def last_run_id(self) -> str:
        rows = await self._connections.fetch(sql.LAST_RUN_ID)
        return str(rows[0][0]) if rows else ""

    async def records(
        self, run_id: str, *, role: str = "", after: int = 0, limit: int = 100, max_bytes: int = PAGE_BYTES
    ) -> list[tuple[int, bytes]]:
        rows = await self._connections.fetch(sql.RECORDS, run_id, after, role, limit, max_bytes)
        return [(row[0], row[1]) for row in rows]

    async def outbox(
        self, owner: str, limit: int = 100, *, scope: str = "", without: Collection[str] = ()
    ) -> list[OutboxRow]:
        rows = await self._connections.fetch(sql.OUTBOX, owner, limit, scope, list(without))
        return [read_outbox_row(tuple(row)) for row in rows]

    async def unpublished(self, scope: str) -> bool:
        return bool(await self._connections.fetch(sql.UNPUBLISHED, scope))

    async def published(self, row_ids: Sequence[int]) -> None:
        await self._connections.fetch(sql.PUBLISHED, list(row_ids))

    async def last_ended(self, limit: int) -> list[EndedRun]:
        return [EndedRun(*row) for row in await self._connections.fetch(sql.LAST_ENDED, limit)]

    async def compactable(self, ended_before: float, limit: int = 100, *, revision: int = 1) -> list[str]:
        return [row[0] for row in await self._connections.fetch(sql.COMPACTABLE, ended_before, limit, revision)]

    async def compact(self, run_id: str, summary: bytes) -> None:
        await self._connections.fetch(sql.COMPACT, run_id, summary)

    async def bound_times(self, latest: float) -> None:
        await self._connections.fetch(sql.BOUND_ENDS, latest)
        await self._connections.fetch(sql.BOUND_TURNS, latest)

    async def delete(
        self, ended_before: float, now: float, request_ttl: float, *, turns_before: float | None = None
    ) -> int:
        turns_before = ended_before if turns_before is None else turns_before
        await self._connections.fetch(sql.FORGET_REQUESTS, now)
        await self._connections.fetch(sql.FORGET_TURNS, turns_before)
        deleted = 0
        while gone := await self._connections.fetch(sql.DELETE, ended_before, now + request_ttl):
            deleted += len(gone)
        return deleted
