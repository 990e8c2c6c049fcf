"""The owner of a run is notified of a command that another replica has posted, and polls for commands as well."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence

import pytest

from archon_mesh.engine import inputs as inp
from archon_services.orchestrator.convert.command import encode_command
from archon_services.orchestrator.journal import CommandRow, OwnerRow, RunRow
from archon_services.orchestrator.journal.postgres import PostgresJournal
from archon_services.orchestrator.ownership import Ownership, OwnershipLimits
from tests.fixtures.journal import create
from tests.fixtures.postgres import PostgresServer
from tests.fixtures.waiting import eventually, run_ready_tasks, until


class Held:
    """Holds one run and records its commands."""

    owner = "owner"
    room = 0

    def __init__(self) -> None:
        self.commands: list[bytes] = []

    def holds(self, run_id: str) -> bool:
        return run_id == "r"

    async def take_over(self, row: RunRow, commands: Sequence[CommandRow]) -> None:
        raise AssertionError

    def command(self, row: CommandRow) -> None:
        self.commands.append(row.data)

    def expired(self, owner: str) -> None:
        """Another replica has died."""

    def release_all(self) -> None:
        raise AssertionError


@pytest.fixture
async def journals(postgres_dsn: str) -> AsyncIterator[list[PostgresJournal]]:
    opened = [PostgresJournal(postgres_dsn) for _ in range(2)]
    for journal in opened:
        await journal.open()
    yield opened
    for journal in opened:
        await journal.close()


async def listening(journal: PostgresJournal) -> None:
    assert journal._listener is not None
    await asyncio.wait_for(journal._listener.listening.wait(), 60)


async def test_durability_13_the_owner_is_notified_of_a_command(
    journals: list[PostgresJournal],
) -> None:
    mine, theirs = journals
    runs = Held()
    owning = Ownership(
        mine,
        runs,
        new_owner=lambda: "another",
        monotonic=time.monotonic,
        jitter=lambda: 0.0,
        limits=OwnershipLimits(scan_interval=60.0),  # commands are received by notification only
    )
    await owning.start()
    await create(mine, "r")
    await listening(mine)
    posted = [encode_command(inp.Cancel("caller", f"reason {number}"), 1.0) for number in range(3)]
    for command in posted:
        await theirs.post("r", command)
        await until(lambda expected=command: expected in runs.commands)  # type: ignore[misc]
    await owning.stop()
    assert set(runs.commands) == set(posted), "commands are delivered until a step takes them"


async def test_a_listener_reconnects_after_a_lost_connection(
    journals: list[PostgresJournal], postgres: PostgresServer, postgres_dsn: str
) -> None:
    mine, theirs = journals
    owners: list[str] = []
    mine.listen(owners.append)
    await listening(mine)
    await create(mine, "r")
    await theirs.post("r", b"x")
    await theirs.post("unowned", b"x")

    async def notified(count: int) -> bool:
        return owners == ["owner"] * count

    await eventually(lambda: notified(1), 5)
    assert mine._listener is not None
    async with postgres.connection(postgres_dsn.rpartition("/")[2]) as connection:
        await connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'")

    async def cut() -> bool:
        return not mine._listener.listening.is_set()  # type: ignore[union-attr]

    await eventually(cut, 60)
    await theirs.post("r", b"while not listening")
    await listening(mine)
    await theirs.post("r", b"y")
    await eventually(lambda: notified(2), 5)


async def test_a_stopped_replica_gets_no_notification(journals: list[PostgresJournal]) -> None:
    mine, theirs = journals
    runs = Held()
    owning = Ownership(mine, runs, new_owner=lambda: "another", monotonic=time.monotonic, jitter=lambda: 0.0)
    await owning.start()
    await create(mine, "r")
    await mine.enter(OwnerRow("else", "", 1, 0))
    await listening(mine)
    await owning.stop()
    notified: list[str] = []
    theirs.listen(notified.append)
    await listening(theirs)
    await theirs.post("r", b"late")
    await until(lambda: bool(notified))
    await run_ready_tasks()
    assert runs.commands == []
