"""The records that are validated after chaos: the journal in PostgreSQL, and the agents' ledger."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import asyncpg

from archon.api.orchestrator.v1 import run_pb2
from archon_services.orchestrator.journal.framing import events_in
from tests.simulation.check import Execution


@dataclass
class Stored:
    """One run as the journal holds it."""

    run_id: str
    request_ids: tuple[str, ...]
    """The request ids of the rows that refer to this run. A correct journal has exactly one."""

    ended: bool
    epoch: int
    events: list[run_pb2.RunEvent]
    inputs: list[tuple[int, bytes]]


@dataclass
class Ledger:
    """Executions of the agents by run: all that began, and those that finished."""

    begun: dict[str, list[Execution]] = field(default_factory=dict)
    finished: dict[str, list[Execution]] = field(default_factory=dict)

    @staticmethod
    def of(lines: Iterable[str]) -> Ledger:
        """Parses lines `begin ROLE TASK ATTEMPT PID` and `end ...`."""
        ledger = Ledger()
        for line in lines:
            verb, _, task_id, attempt, pid = line.split()
            book = {"begin": ledger.begun, "end": ledger.finished}.get(verb)
            if book is not None:
                book.setdefault(task_id.partition(".")[0], []).append(Execution(task_id, int(attempt), pid))
        return ledger

    @staticmethod
    def read(path: Path) -> Ledger:
        """Parses the file that all agents wrote to."""
        return Ledger.of(path.read_text().splitlines())


class Archive:
    """Reads the journal from the database, without an orchestrator. Created by `archive`."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self._connection = connection

    async def open_runs(self) -> int:
        """Returns the number of runs that have not ended."""
        return int(await self._connection.fetchval("SELECT count(*) FROM archon_journal.runs WHERE ended_at = 0"))

    async def run_ids(self) -> list[str]:
        """Returns the ids of all runs, including runs that have steps but no row."""
        rows = await self._connection.fetch(
            "SELECT run_id FROM archon_journal.runs UNION SELECT run_id FROM archon_journal.steps ORDER BY run_id"
        )
        return [row[0] for row in rows]

    async def requests(self) -> dict[str, str]:
        """Returns the run id of each request id."""
        rows = await self._connection.fetch("SELECT request_id, run_id FROM archon_journal.requests")
        return {row[0]: row[1] for row in rows}

    async def run(self, run_id: str) -> Stored:
        """Reads one run."""
        fetch = self._connection.fetch
        row = await self._connection.fetchrow(
            "SELECT ended_at, epoch FROM archon_journal.runs WHERE run_id = $1", run_id
        )
        requests = await fetch("SELECT request_id FROM archon_journal.requests WHERE run_id = $1", run_id)
        steps = await fetch(
            "SELECT base, data, inputs FROM archon_journal.steps WHERE run_id = $1 ORDER BY base", run_id
        )
        return Stored(
            run_id,
            tuple(request[0] for request in requests),
            bool(row and row[0]),
            row[1] if row else 0,
            [run_pb2.RunEvent.FromString(event) for step in steps for event in events_in(step["data"])],
            [(step["base"], step["inputs"]) for step in steps if step["inputs"]],
        )


@asynccontextmanager
async def archive(dsn: str) -> AsyncIterator[Archive]:
    """Opens an archive on a new connection."""
    connection = await asyncpg.connect(dsn, timeout=10, command_timeout=60)
    try:
        yield Archive(connection)
    finally:
        await connection.close(timeout=5)
