"""The PostgreSQL journal while its server restarts, dies, freezes or is not running."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from archon.errors import FailedPrecondition, Unavailable
from archon_services.orchestrator.journal import Outcome, Publication, RecordRow
from archon_services.orchestrator.journal.postgres import PostgresJournal
from archon_services.postgres.connections import DEADLINE
from tests.fixtures.journal import create, event, step, store, stored_events
from tests.fixtures.postgres import PASSWORD, PostgresServer
from tests.fixtures.waiting import eventually, until

RUNS = 20

BRIEFLY = 2.0
"""Seconds, less than the limit of a statement."""


@pytest.fixture
async def journal(fresh_postgres: PostgresServer) -> AsyncIterator[PostgresJournal]:
    store = PostgresJournal(fresh_postgres.dsn())
    await store.open()
    yield store
    await store.close()


class Owner:
    """Stores steps of one run as a driver does: if a step fails it reads the run again and continues from there."""

    def __init__(self, journal: PostgresJournal, run_id: str) -> None:
        self._journal = journal
        self.run_id = run_id
        self.acknowledged = 0
        self.failed = 0

    async def work(self, stop: asyncio.Event) -> None:
        await create(self._journal, self.run_id)
        base, batch = 1, 0
        while not stop.is_set():
            batch += 1
            try:
                outcome = await store(
                    self._journal, step(self.run_id, base, 2, batch=f"{batch}", changed=batch % 3 == 0)
                )
                assert outcome is not Outcome.DEPOSED
                if outcome is Outcome.DONE:
                    base += 2
                    self.acknowledged = base
                    continue
                row = await self._journal.run(self.run_id)
                assert row is not None
                base = row.last_seq
            except Unavailable as error:
                self.failed += 1
                await asyncio.sleep((error.retry_delay or 1.0) / 20)


async def progress(owners: Sequence[Owner]) -> None:
    """Waits until each owner has stored another step."""
    before = [owner.acknowledged for owner in owners]
    await until(lambda: all(owner.acknowledged > was for owner, was in zip(owners, before, strict=True)), 60)


async def under_load(journal: PostgresJournal, outage: Callable[[Sequence[Owner]], Awaitable[None]]) -> list[Owner]:
    """Stores steps of all runs before, during and after an outage. Returns the owners after checking that no
    acknowledged step is lost."""
    stop = asyncio.Event()
    owners = [Owner(journal, f"r{n}") for n in range(RUNS)]
    working = [asyncio.create_task(owner.work(stop)) for owner in owners]
    await progress(owners)
    await outage(owners)
    await progress(owners)
    stop.set()
    await asyncio.gather(*working)
    for owner in owners:
        row = await journal.run(owner.run_id)
        assert row is not None and row.last_seq >= owner.acknowledged > 1
        expected = [event(owner.run_id, seq) for seq in range(1, row.last_seq + 1)]
        assert await stored_events(journal, owner.run_id) == expected, "an event is missing, repeated or out of order"
    return owners


@pytest.mark.slow
async def test_a_restarted_server_loses_nothing_acknowledged(
    fresh_postgres: PostgresServer, journal: PostgresJournal
) -> None:
    async def outage(owners: Sequence[Owner]) -> None:
        for _ in range(3):
            await asyncio.to_thread(fresh_postgres.restart)
            await progress(owners)

    await under_load(journal, outage)


@pytest.mark.slow
async def test_a_killed_server_loses_nothing_acknowledged(
    fresh_postgres: PostgresServer, journal: PostgresJournal
) -> None:
    async def outage(owners: Sequence[Owner]) -> None:
        await asyncio.to_thread(fresh_postgres.kill)
        await asyncio.to_thread(fresh_postgres.start)  # steps are refused meanwhile

    await under_load(journal, outage)


@pytest.mark.slow
async def test_steps_wait_for_a_server_that_freezes_briefly(
    fresh_postgres: PostgresServer, journal: PostgresJournal
) -> None:
    async def outage(owners: Sequence[Owner]) -> None:
        await asyncio.to_thread(fresh_postgres.freeze)
        await asyncio.sleep(BRIEFLY)
        await asyncio.to_thread(fresh_postgres.thaw)

    owners = await under_load(journal, outage)
    assert not any(owner.failed for owner in owners)


@pytest.mark.slow
async def test_a_server_that_freezes_for_long_is_unavailable(
    fresh_postgres: PostgresServer, journal: PostgresJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("group_commit", "connections"):
        monkeypatch.setattr(f"archon_services.postgres.{module}.STATEMENT_TIMEOUT", 0.4)
        monkeypatch.setattr(f"archon_services.postgres.{module}.DEADLINE", 0.8)
    await create(journal, "r")
    await create(journal, "q")
    assert await store(journal, step("r", 1)) is Outcome.DONE
    fresh_postgres.freeze()
    calls = [
        store(journal, step("r", 2, batch="mine")),
        create(journal, "n"),
        journal.claim("q", "other"),
        *(journal.steps("r") for _ in range(6)),
        *(journal.run("r") for _ in range(6)),
    ]
    async with asyncio.timeout(DEADLINE):  # the limit that is not shortened
        results = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(result, Unavailable) and result.retry_delay for result in results), results
    assert "is unknown" in str(results[0])
    fresh_postgres.thaw()

    async def stored() -> bool:
        try:
            return await store(journal, step("r", 2, batch="mine")) is Outcome.DONE
        except Unavailable:
            return False

    await eventually(stored, 60)
    assert len(await stored_events(journal, "r")) == 3


async def test_a_stopped_server_is_unavailable_until_it_starts(
    fresh_postgres: PostgresServer, journal: PostgresJournal
) -> None:
    await create(journal, "r")
    await asyncio.to_thread(fresh_postgres.stop)
    calls = (
        store(journal, step("r", 1)),
        create(journal, "n"),
        journal.run("r"),
        journal.claim("r", "other"),
        journal.published([1]),
        journal.beat("owner", ""),
        journal.delete(1.0, 1.0, 1.0),
    )
    async with asyncio.timeout(DEADLINE):  # they do not wait for the server
        for result in await asyncio.gather(*calls, return_exceptions=True):
            assert isinstance(result, Unavailable) and result.retry_delay, result
    fresh_postgres.start()
    assert await store(journal, step("r", 1)) is Outcome.DONE
    assert await journal.open_runs() == ["r"]
    assert await create(journal, "n") is Outcome.DONE


async def test_opening_without_a_server_fails_and_works_later(
    fresh_postgres: PostgresServer,
) -> None:
    fresh_postgres.stop()
    journal = PostgresJournal(fresh_postgres.dsn())
    with pytest.raises(Unavailable) as refused:
        await journal.open()
    assert refused.value.retry_delay
    assert PASSWORD not in str(refused.value)
    fresh_postgres.start()
    await journal.open()
    await create(journal, "r")
    await journal.close()
    await journal.close()
    with pytest.raises(Unavailable):
        await store(journal, step("r", 1))


@pytest.mark.slow
async def test_a_frozen_server_does_not_hold_up_a_shutdown(
    fresh_postgres: PostgresServer, journal: PostgresJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("group_commit", "connections"):
        monkeypatch.setattr(f"archon_services.postgres.{module}.CLOSE_TIMEOUT", 0.2)
    await create(journal, "r")
    await stored_events(journal, "r")
    fresh_postgres.freeze()
    async with asyncio.timeout(60):  # without a limit it would not end
        await journal.close()


async def test_synchronous_commit_off_is_overruled(postgres: PostgresServer, postgres_dsn: str) -> None:
    database = postgres_dsn.rpartition("/")[2]
    for setting, effective in (("off", "on"), ("remote_apply", "remote_apply"), ("on", "on")):
        postgres.execute(f"ALTER DATABASE {database} SET synchronous_commit = {setting}")
        journal = PostgresJournal(postgres_dsn)
        await journal.open()
        for connect in (journal._connections.fetch, journal._beats.fetch):
            assert (await connect("SHOW synchronous_commit"))[0][0] == effective
        connection = await journal._appends._dial()
        assert await connection.fetchval("SHOW synchronous_commit") == effective
        await connection.close()
        await journal.close()


async def test_closing_the_journal_commits_queued_steps(postgres_dsn: str) -> None:
    journal = PostgresJournal(postgres_dsn)
    await journal.open()
    creating = [asyncio.create_task(create(journal, f"r{n}")) for n in range(300)]
    await asyncio.sleep(0)
    await journal.close()
    assert set(await asyncio.gather(*creating)) == {Outcome.DONE}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("s3cret%3Aw%40rd", "wrong"), "password"),
        (("archon:", "stranger:"), "password"),
        (("/postgres", "/nowhere"), "no such database"),
        (("/postgres", "/postgres?options=-cno_such_setting%3D1"), "option"),
    ],
)
async def test_a_refusing_database_is_explained_without_password(
    postgres: PostgresServer, change: tuple[str, str], says: str
) -> None:
    journal = PostgresJournal(postgres.dsn().replace(*change))
    with pytest.raises(FailedPrecondition, match=says) as refused:
        await journal.open()
    for secret in (PASSWORD, "s3cret", "wrong"):
        assert secret not in str(refused.value)


async def test_durability_6_a_group_is_one_statement_without_notify(
    tmp_path: Path,
) -> None:
    with PostgresServer(["log_statement=all"]) as server:
        journal = PostgresJournal(server.dsn())
        await journal.open()
        await asyncio.gather(*(create(journal, f"r{n}") for n in range(64)))
        publication, record = Publication("scope", "role", "r.1", 2), RecordRow("role", b"record")

        async def statements(first: int, last: int, at: int) -> list[str]:
            start = server.log_file.stat().st_size
            steps = [step(f"r{n}", at, 3, records=(record,), publications=(publication,)) for n in range(first, last)]
            assert set(await asyncio.gather(*(store(journal, each) for each in steps))) == {Outcome.DONE}
            written = server.log_file.read_bytes()[start:].decode()
            return [line for line in written.splitlines() if "execute " in line or "statement:" in line]

        await statements(0, 1, 1)  # opens a connection
        alone = await statements(0, 1, 4)
        assert len(alone) == 1
        assert "WITH given AS" in server.log_file.read_text()
        assert len(await statements(1, 64, 1)) <= 2, "one group for the first step, one for the rest"
        assert "NOTIFY" not in server.log_file.read_text().upper()
        assert "BEGIN" not in " ".join(alone)
        await journal.close()
