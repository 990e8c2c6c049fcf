"""The PostgreSQL journal while its server restarts, dies, freezes, isn't there, or has a full disk."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from archon.errors import FailedPrecondition, Unavailable
from archon_services.orchestrator.journal import Outcome, Publication, RecordRow
from archon_services.orchestrator.journal.postgres import PostgresJournal
from tests.fixtures.postgres import PASSWORD, PostgresServer
from tests.integration.services.orchestrator.journal.test_conformance import new, step

RUNS = 20


@pytest.fixture
async def journal(fresh_postgres: PostgresServer) -> AsyncIterator[PostgresJournal]:
    store = PostgresJournal(fresh_postgres.dsn())
    await store.open()
    yield store
    await store.close()


class Owner:
    """Appends to one run as a driver does: where an append fails it reads how the run stands, and goes on from there."""

    def __init__(self, journal: PostgresJournal, run_id: str) -> None:
        self._journal = journal
        self.run_id = run_id
        self.acknowledged = 0
        self.failed = 0

    async def work(self, stop: asyncio.Event) -> None:
        await self._journal.create(new(self.run_id), step(self.run_id, 0))
        at, batch = 1, 0
        while not stop.is_set():
            batch += 1
            try:
                outcome = await self._journal.append(step(self.run_id, at, 2, batch=f"{batch}"))
                assert outcome is not Outcome.DEPOSED
                if outcome is Outcome.DONE:
                    at += 2
                    self.acknowledged = at
                    continue
                row = await self._journal.run(self.run_id)
                assert row is not None
                at = row.last_seq
            except Unavailable as error:
                self.failed += 1
                await asyncio.sleep((error.retry_delay or 1.0) / 20)


async def under_load(journal: PostgresJournal, outage: Iterator[float]) -> list[Owner]:
    """Works on all runs while an outage takes its course: it gives the seconds between its steps."""
    stop = asyncio.Event()
    owners = [Owner(journal, f"r{n}") for n in range(RUNS)]
    working = [asyncio.create_task(owner.work(stop)) for owner in owners]
    await asyncio.sleep(0.3)
    while (pause := await asyncio.to_thread(next, outage, None)) is not None:  # noqa: ASYNC110
        await asyncio.sleep(pause)
    before = [owner.acknowledged for owner in owners]
    async with asyncio.timeout(15):
        while any(owner.acknowledged <= was for owner, was in zip(owners, before, strict=True)):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    stop.set()
    await asyncio.gather(*working)
    for owner in owners:
        row = await journal.run(owner.run_id)
        assert row is not None and row.last_seq >= owner.acknowledged > 1
        events = await journal.events(owner.run_id, 0, limit=1_000_000)
        assert events == [f"{owner.run_id}:{n}".encode() for n in range(1, row.last_seq + 1)], "each once, in order"
    return owners


async def test_nothing_acknowledged_is_lost_when_the_server_restarts_under_load(
    fresh_postgres: PostgresServer, journal: PostgresJournal
) -> None:
    def outage() -> Iterator[float]:
        for _ in range(3):
            fresh_postgres.restart()
            yield 0.3

    await under_load(journal, outage())


async def test_nothing_acknowledged_is_lost_when_the_server_is_killed_under_load(
    fresh_postgres: PostgresServer, journal: PostgresJournal
) -> None:
    def outage() -> Iterator[float]:
        fresh_postgres.kill()
        yield 0.3
        fresh_postgres.start()
        yield 0.3

    await under_load(journal, outage())


async def test_a_server_that_freezes_for_a_moment_is_waited_for(
    fresh_postgres: PostgresServer, journal: PostgresJournal
) -> None:
    def outage() -> Iterator[float]:
        fresh_postgres.freeze()
        yield 2.0
        fresh_postgres.thaw()
        yield 0.1

    owners = await under_load(journal, outage())
    assert not any(owner.failed for owner in owners)


async def test_a_server_that_freezes_for_long_is_unavailable_in_time_and_comes_back(
    fresh_postgres: PostgresServer, journal: PostgresJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("group_commit", "connections"):
        monkeypatch.setattr(f"archon_services.postgres.{module}.STATEMENT_TIMEOUT", 1.0)
        monkeypatch.setattr(f"archon_services.postgres.{module}.DEADLINE", 2.0)
    await journal.create(new("r"), step("r", 0))
    await journal.create(new("q"), step("q", 0))
    assert await journal.append(step("r", 1)) is Outcome.DONE
    fresh_postgres.freeze()
    began = time.monotonic()
    calls = [
        journal.append(step("r", 2, batch="mine")),
        journal.create(new("n"), step("n", 0)),
        journal.claim("q", "other"),
        *(journal.events("r", 0) for _ in range(6)),
        *(journal.run("r") for _ in range(6)),
    ]
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(result, Unavailable) and result.retry_delay for result in results), results
    assert "isn't known" in str(results[0])
    assert time.monotonic() - began < 6.0
    fresh_postgres.thaw()
    async with asyncio.timeout(10):
        while True:
            try:
                assert await journal.append(step("r", 2, batch="mine")) is Outcome.DONE
                break
            except Unavailable:
                await asyncio.sleep(0.1)
    assert len(await journal.events("r", 0)) == 3


async def test_a_server_that_is_gone_is_unavailable_at_once_and_reads_and_writes_heal(
    fresh_postgres: PostgresServer, journal: PostgresJournal
) -> None:
    await journal.create(new("r"), step("r", 0))
    await asyncio.to_thread(fresh_postgres.stop)
    await asyncio.sleep(0.1)  # the connections' ends are heard
    began = time.monotonic()
    calls = (
        journal.append(step("r", 1)),
        journal.create(new("n"), step("n", 0)),
        journal.run("r"),
        journal.claim("r", "other"),
        journal.published([1]),
        journal.beat("owner", ""),
        journal.delete(1.0, 1.0, 1.0),
    )
    for result in await asyncio.gather(*calls, return_exceptions=True):
        assert isinstance(result, Unavailable) and result.retry_delay, result
    assert time.monotonic() - began < 3.0
    fresh_postgres.start()
    assert await journal.append(step("r", 1)) is Outcome.DONE
    assert await journal.open_runs() == ["r"]
    assert await journal.create(new("n"), step("n", 0)) == ("n", True)


async def test_a_server_that_is_gone_at_the_start_is_a_typed_error_and_a_later_start_works(
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
    await journal.create(new("r"), step("r", 0))
    await journal.close()
    await journal.close()
    with pytest.raises(Unavailable):
        await journal.append(step("r", 1))


async def test_a_server_that_is_gone_does_not_hold_up_a_shutdown(
    fresh_postgres: PostgresServer, journal: PostgresJournal
) -> None:
    await journal.create(new("r"), step("r", 0))
    await journal.events("r", 0)
    fresh_postgres.freeze()
    began = time.monotonic()
    await journal.close()
    assert time.monotonic() - began < 8.0


async def test_a_database_that_is_set_to_lose_commits_is_overruled_and_a_stronger_setting_stands(
    postgres: PostgresServer, postgres_dsn: str
) -> None:
    database = postgres_dsn.rpartition("/")[2]
    for given, kept in (("off", "on"), ("remote_apply", "remote_apply"), ("on", "on")):
        postgres.execute(f"ALTER DATABASE {database} SET synchronous_commit = {given}")
        journal = PostgresJournal(postgres_dsn)
        await journal.open()
        for connect in (journal._connections.fetch, journal._beats.fetch):
            assert (await connect("SHOW synchronous_commit"))[0][0] == kept
        connection = await journal._appends._dial()
        assert await connection.fetchval("SHOW synchronous_commit") == kept
        await connection.close()
        await journal.close()


async def test_what_was_under_way_is_sent_before_the_journal_is_closed(postgres_dsn: str) -> None:
    journal = PostgresJournal(postgres_dsn)
    await journal.open()
    creating = [asyncio.create_task(journal.create(new(f"r{n}"), step(f"r{n}", 0))) for n in range(300)]
    await asyncio.sleep(0)
    await journal.close()
    assert all(created for _, created in await asyncio.gather(*creating))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("s3cret%3Aw%40rd", "wrong"), "password"),
        (("archon:", "nobody:"), "password"),
        (("/postgres", "/nowhere"), "no such database"),
        (("/postgres", "/postgres?options=-cno_such_setting%3D1"), "option"),
    ],
)
async def test_a_database_that_refuses_us_says_why_and_not_the_password(
    postgres: PostgresServer, change: tuple[str, str], says: str
) -> None:
    journal = PostgresJournal(postgres.dsn().replace(*change))
    with pytest.raises(FailedPrecondition, match=says) as refused:
        await journal.open()
    for secret in (PASSWORD, "s3cret", "wrong"):
        assert secret not in str(refused.value)


async def test_durability_6_an_append_is_one_statement_without_notify_and_what_waits_together_is_one_too(
    tmp_path: Path,
) -> None:
    with PostgresServer(["log_statement=all"]) as server:
        journal = PostgresJournal(server.dsn())
        await journal.open()
        await asyncio.gather(*(journal.create(new(f"r{n}"), step(f"r{n}", 0)) for n in range(64)))
        publication, record = Publication("scope", "role", "r.1", 2, "text"), RecordRow("role", b"record")

        async def statements(first: int, last: int, at: int) -> list[str]:
            start = server.log_file.stat().st_size
            steps = [step(f"r{n}", at, 3, records=(record,), publications=(publication,)) for n in range(first, last)]
            assert set(await asyncio.gather(*map(journal.append, steps))) == {Outcome.DONE}
            written = server.log_file.read_bytes()[start:].decode()
            return [line for line in written.splitlines() if "execute" in line or "statement:" in line]

        await statements(0, 1, 1)  # dials
        alone = await statements(0, 1, 4)
        assert len(alone) == 1
        assert "WITH given AS" in server.log_file.read_text()
        assert len(await statements(1, 64, 1)) <= 2, "one that finds the lane free, and the rest"
        assert "NOTIFY" not in server.log_file.read_text().upper()
        assert "BEGIN" not in " ".join(alone)
        await journal.close()
