"""Journals of the previous version, with runs of a real orchestrator that was killed, are upgraded in place."""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, Final

import asyncpg
import pytest

from archon.errors import ArchonError
from archon.wire import text_of
from archon_mesh.engine import RunState, apply
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.decide.engine import decide
from archon_services.orchestrator.convert import events_of
from archon_services.orchestrator.journal import Journal, Outcome, OwnerRow, SameRequest
from archon_services.orchestrator.journal.framing import events_in
from archon_services.orchestrator.journal.postgres import PostgresJournal
from archon_services.orchestrator.journal.postgres.schema import SCHEMA
from archon_services.orchestrator.journal.sqlite import SqliteJournal, schema
from archon_services.orchestrator.runs.states.load import load_run
from archon_services.orchestrator.runs.turn.chain import RunChain
from archon_services.orchestrator.runs.turn.step import build_step
from archon_services.postgres.dsn import parse_dsn
from archon_services.postgres.migrations import migrate
from tests.fixtures.journal import creation, new_run, store, stored_events
from tests.fixtures.postgres import PostgresServer
from tests.fixtures.servers import empty_postgres_dsn

__all__ = ["empty_postgres_dsn"]

HERE: Final = Path(__file__).parent
SIZES: Final = (0, 1, 127, 128, 300, 16_383, 16_384, 2_097_151, 2_097_152)
"""Sizes of events just below and above each change of a varint's length."""

LARGE: Final = "large"
ORPHAN: Final = "no inputs"
OLD_TABLES: Final = ("runs", "events", "inputs", "records", "requests", "outbox", "owners", "commands", "turns")

Rows = list[tuple[Any, ...]]


class Earlier(ABC):
    """A store that the previous version has written."""

    @abstractmethod
    async def read(self, sql: str) -> Rows: ...

    @abstractmethod
    async def execute(self, sql: str, rows: Sequence[tuple[Any, ...]] = ((),)) -> None: ...

    @abstractmethod
    def journal(self) -> Journal: ...

    @abstractmethod
    async def break_upgrade(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Makes the last statement of the upgrade fail."""

    @abstractmethod
    async def repair_upgrade(self, monkeypatch: pytest.MonkeyPatch) -> None: ...

    @abstractmethod
    def table(self, name: str) -> str: ...

    async def dump(self, tables: Sequence[str]) -> dict[str, Rows]:
        return {name: sorted(await self.read(f"SELECT * FROM {self.table(name)}"), key=repr) for name in tables}

    async def grouped(self, table: str, order: str) -> dict[str, list[tuple[int, bytes]]]:
        """Returns (number, data) by run of a table of the previous version."""
        by_run: dict[str, list[tuple[int, bytes]]] = {}
        for run_id, number, data in await self.read(
            f"SELECT run_id, {order}, data FROM {self.table(table)} ORDER BY 1, 2"
        ):
            by_run.setdefault(run_id, []).append((number, data))
        return by_run


class EarlierFile(Earlier):
    def __init__(self, path: Path) -> None:
        self.path = path

    def table(self, name: str) -> str:
        return name

    async def read(self, sql: str) -> Rows:
        db = sqlite3.connect(self.path)
        try:
            return db.execute(sql).fetchall()
        finally:
            db.close()

    async def execute(self, sql: str, rows: Sequence[tuple[Any, ...]] = ((),)) -> None:
        db = sqlite3.connect(self.path)
        with db:
            db.executemany(sql, rows)
        db.close()

    def journal(self) -> Journal:
        return SqliteJournal(self.path)

    async def break_upgrade(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def fails(db: sqlite3.Connection) -> None:
            schema._gather_steps(db)
            raise sqlite3.OperationalError("planted")

        monkeypatch.setitem(schema._UPGRADES, 3, fails)

    async def repair_upgrade(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.undo()


class EarlierDatabase(Earlier):
    def __init__(self, server: PostgresServer, dsn: str) -> None:
        self.server = server
        self.dsn = dsn

    def table(self, name: str) -> str:
        return f"archon_journal.{name}"

    async def read(self, sql: str) -> Rows:
        connection = await asyncpg.connect(self.dsn)
        try:
            return [tuple(row) for row in await connection.fetch(sql)]
        finally:
            await connection.close()

    async def execute(self, sql: str, rows: Sequence[tuple[Any, ...]] = ((),)) -> None:
        for number in range(sql.count("?")):
            sql = sql.replace("?", f"${number + 1}", 1)
        connection = await asyncpg.connect(self.dsn)
        try:
            await connection.executemany(sql, rows)
        finally:
            await connection.close()

    def journal(self) -> Journal:
        return PostgresJournal(self.dsn)

    async def break_upgrade(self, monkeypatch: pytest.MonkeyPatch) -> None:
        await self.execute("CREATE INDEX outbox_of_run ON archon_journal.commands (row_id)")

    async def repair_upgrade(self, monkeypatch: pytest.MonkeyPatch) -> None:
        await self.execute("DROP INDEX archon_journal.outbox_of_run")


@pytest.fixture(params=["sqlite", "postgres"])
async def earlier(request: pytest.FixtureRequest, tmp_path: Path) -> Earlier:
    """A journal of the previous version, with one run of events of many sizes, and one run without inputs."""
    if request.param == "sqlite":
        opened: Earlier = EarlierFile(tmp_path / "journal.db")
        db = sqlite3.connect(tmp_path / "journal.db")
        db.executescript((HERE / "sqlite_v3.sql").read_text())
        db.close()
        columns = "run_id, tenant, session_id, owner, epoch, last_seq, state, batch_id, created_at, ended_at"
        values = "'default', '', 'gone', 1, ?, 2, 'last', 50.0, 0"
    else:
        server, dsn = request.getfixturevalue("postgres"), request.getfixturevalue("empty_postgres_dsn")
        await migrate(parse_dsn(dsn), SCHEMA, "test", to="0003")
        server.execute((HERE / "revisions" / "0003_runs.sql").read_text(), dsn.rpartition("/")[2])
        opened = EarlierDatabase(server, dsn)
        columns = "run_id, tenant, session_id, owner, epoch, last_seq, state, batch_id, created_at, ended_at, records"
        values = "'default', '', 'gone', 1, ?, 2, 'last', 50.0, 0, 0"
    runs = [(LARGE, len(SIZES)), (ORPHAN, 2)]
    await opened.execute(f"INSERT INTO {opened.table('runs')} ({columns}) VALUES (?, {values})", runs)
    sized = [(LARGE, seq, bytes([seq]) * size) for seq, size in enumerate(SIZES, 1)]
    orphans = [(ORPHAN, 1, b"one"), (ORPHAN, 2, b"two")]
    await opened.execute(f"INSERT INTO {opened.table('events')} VALUES (?, ?, ?)", [*sized, *orphans])
    inputs = [(LARGE, base, b"in %d" % base) for base in (0, 2, 3, 7)]
    await opened.execute(f"INSERT INTO {opened.table('inputs')} VALUES (?, ?, ?)", inputs)
    return opened


@pytest.fixture
async def upgraded(earlier: Earlier) -> AsyncIterator[Journal]:
    """A journal with the store of `earlier`, not opened."""
    journal = earlier.journal()
    yield journal
    await journal.close()


async def test_durability_7_all_events_and_inputs_are_kept(earlier: Earlier, upgraded: Journal) -> None:
    before, causes = await earlier.grouped("events", "seq"), await earlier.grouped("inputs", "last_seq")
    assert len(before) > 8 and sum(map(len, before.values())) > 50
    await upgraded.open()
    for run_id, rows in before.items():
        assert await stored_events(upgraded, run_id) == [data for _, data in rows]
        assert [seq for seq, _ in rows] == list(range(1, len(rows) + 1))
        assert await upgraded.inputs(run_id) == causes.get(run_id, [(0, b"")])
        assert [row.base for row in await upgraded.steps(run_id)] == [
            base for base, _ in causes.get(run_id, [(0, b"")])
        ]
    assert [len(event) for event in await stored_events(upgraded, LARGE)] == list(SIZES)
    assert await stored_events(upgraded, ORPHAN) == [b"one", b"two"]


async def test_upgraded_runs_load_and_their_rows_are_unchanged(earlier: Earlier, upgraded: Journal) -> None:
    columns = "run_id, tenant, session_id, owner, epoch, last_seq, state, created_at, ended_at, compacted, summary"
    before = await earlier.read(f"SELECT {columns} FROM {earlier.table('runs')} ORDER BY run_id")
    await upgraded.open()
    compacted = 0
    for run_id, tenant, session_id, owner, epoch, last_seq, number, created_at, ended_at, gone, summary in before:
        row = await upgraded.run(run_id)
        assert row is not None
        assert (row.tenant, row.session_id, row.owner, row.epoch) == (tenant, session_id, owner, epoch)
        assert (row.last_seq, row.state, row.created_at, row.ended_at) == (last_seq, number, created_at, ended_at)
        assert (bool(row.compacted), row.summary) == (bool(gone), summary)
        compacted += bool(gone)
        if gone or run_id in (LARGE, ORPHAN):
            continue
        state = await load_run(upgraded, run_id)
        assert (state.last_seq, int(state.state), state.epoch) == (last_seq, number, epoch)
        assert state.ended == (ended_at > 0)
    assert compacted == 1


async def take(journal: Journal, owner: str) -> list[Any]:
    for row in await journal.live_owners():
        await journal.expire(row.owner, row.beat)
    await journal.enter(OwnerRow(owner, "host:1", 1, 0))
    return await journal.claim_some(owner, 100, 1)


async def test_upgraded_open_runs_are_claimed_and_continue(earlier: Earlier, upgraded: Journal) -> None:
    await upgraded.open()
    claimed = await take(upgraded, "new")
    assert len(claimed) == 5, "a question, a waiting retry, a paused run, and the two runs of the fixture"
    finished = 0
    for row in claimed:
        if row.run_id in (LARGE, ORPHAN):
            continue
        state = await load_run(upgraded, row.run_id)
        assert state.last_seq == row.last_seq
        for decided in (inp.Claim("new", row.epoch), inp.Cancel("caller", "enough")):
            state = await _append(upgraded, row.run_id, row.epoch, state, decided)
        stored = await load_run(upgraded, row.run_id)
        assert (stored.last_seq, stored.state, stored.epoch) == (state.last_seq, state.state, row.epoch)
        assert stored.ending is not None
        ended = await upgraded.run(row.run_id)
        assert ended is not None and ended.last_seq == state.last_seq > row.last_seq
        assert ended.ended_at == (5e9 if stored.ended else 0.0)
        finished += stored.ended
    assert finished == 1, "the run with the question ends; the others wait for attempts in progress"


async def _append(journal: Journal, run_id: str, epoch: int, state: RunState, decided: inp.Input) -> RunState:
    base, before = state.last_seq, int(state.state)
    events = decide(state, decided, 5e9)
    for event in events:
        apply(state, event, 5e9)
    step = build_step(
        state,
        run_id=run_id,
        epoch=epoch,
        base=base,
        batch_id=f"{base}",
        now=5e9,
        stored_at=5e9,
        events=events,
        inputs=[decided],
        batch=[],
        new=None,
        state_before=before,
        publishes=False,
        chain=RunChain(run_id),
    )
    assert await store(journal, step) is Outcome.DONE
    return state


async def test_an_upgraded_outbox_keeps_its_texts(earlier: Earlier, upgraded: Journal) -> None:
    sql = f"SELECT row_id, run_id, epoch, scope, role, task_id, seq, content FROM {earlier.table('outbox')} ORDER BY 1"
    before = await earlier.read(sql)
    assert len(before) >= 3
    await upgraded.open()
    await take(upgraded, "new")
    rows = await upgraded.outbox("new")
    for (row_id, run_id, epoch, scope, role, task_id, seq, content), row in zip(before, rows, strict=True):
        assert (row.row_id, row.run_id, row.epoch) == (row_id, run_id, epoch)
        key = row.publication
        assert (key.scope, key.role, key.task_id, key.seq) == (scope, role, task_id, seq)
        text = content.decode() if isinstance(content, bytes) else content
        assert row.content == text
        (result,) = [event.result for event in events_of(row.data, run_id) if event.seq == seq]
        assert text_of(result.output) == text, "the text of new rows is read from the step"
    await upgraded.published([row.row_id for row in rows])
    assert await upgraded.outbox("new") == []


async def test_upgraded_requests_records_commands_and_turns_are_kept(earlier: Earlier, upgraded: Journal) -> None:
    requests = await earlier.read(f"SELECT tenant, request_id, payload_hash, run_id FROM {earlier.table('requests')}")
    records = await earlier.grouped("records", "ordinal")
    commands = await earlier.read(f"SELECT run_id, data FROM {earlier.table('commands')}")
    turns = await earlier.read(
        f"SELECT tenant, session_id, role, version, data FROM {earlier.table('turns')} ORDER BY 4"
    )
    assert requests and records and commands and turns
    await upgraded.open()
    for tenant, request_id, payload_hash, run_id in requests:
        assert await upgraded.request(tenant, request_id) == (payload_hash, run_id)
        again = creation(new_run("new", request_id, payload_hash, tenant=tenant))
        assert await store(upgraded, again) == SameRequest(run_id)
    for run_id, rows in records.items():
        assert await upgraded.records(run_id) == [(number, data) for number, (_, data) in enumerate(rows, 1)]
    await take(upgraded, "new")
    assert [(row.run_id, row.data) for row in await upgraded.posted("new")] == commands
    (tenant, session_id, role), versions = turns[0][:3], [row[3] for row in turns]
    conversation = await upgraded.conversation(tenant, session_id, role)
    assert (conversation.version, list(conversation.turns)) == (versions[-1], [row[4] for row in turns])


async def test_opening_an_upgraded_journal_again_changes_nothing(earlier: Earlier, upgraded: Journal) -> None:
    tables = ("runs", "steps", "records", "requests", "outbox", "owners", "commands", "turns")
    await upgraded.open()
    await upgraded.close()
    first = await earlier.dump(tables)
    for _ in range(2):
        again = earlier.journal()
        await again.open()
        await again.close()
    assert await earlier.dump(tables) == first


async def test_durability_7_an_interrupted_upgrade_changes_nothing(
    earlier: Earlier, upgraded: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = await earlier.dump(OLD_TABLES)
    await earlier.break_upgrade(monkeypatch)
    with pytest.raises((sqlite3.Error, ArchonError)):
        await upgraded.open()
    await upgraded.close()
    assert await earlier.dump(OLD_TABLES) == before, "the previous version can still read it"
    await earlier.execute(
        f"INSERT INTO {earlier.table('outbox')} (run_id, epoch, scope, role, task_id, seq, content) "
        "SELECT run_id, epoch, scope, role, task_id, seq, content FROM "
        f"{earlier.table('outbox')} ORDER BY row_id LIMIT 1"
    )
    await earlier.repair_upgrade(monkeypatch)
    journal = earlier.journal()
    await journal.open()
    try:
        assert await stored_events(journal, ORPHAN) == [b"one", b"two"]
        for run_id in {row[0] for row in before["events"]}:
            rows = sorted((row[1], row[2]) for row in before["events"] if row[0] == run_id)
            assert await stored_events(journal, run_id) == [data for _, data in rows]
        await take(journal, "new")
        assert len(await journal.outbox("new")) == len(before["outbox"]) + 1
    finally:
        await journal.close()


async def test_durability_7_a_file_of_version_1_is_upgraded(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    db = sqlite3.connect(path)
    db.executescript((HERE / "sqlite_v1.sql").read_text())
    db.close()
    journal = SqliteJournal(path)
    for _ in range(2):
        await journal.open()
        (row,) = await journal.claim_some("owner", 10, 1)
        assert (row.run_id, row.owner, row.last_seq, row.revision) == ("r", "owner", 2, 1)
        assert await stored_events(journal, "r") == [b"one", b"two"]
        await journal.close()
    db = sqlite3.connect(path)
    assert db.execute("SELECT value FROM meta WHERE key = 'version'").fetchone() == (str(schema.VERSION),)
    db.close()


async def test_the_last_batch_of_an_upgraded_run_is_known(earlier: Earlier, upgraded: Journal) -> None:
    """A step that was not acknowledged before the upgrade is recognised by its batch when it is repeated."""
    await upgraded.open()
    (last,) = await upgraded.steps(LARGE, len(SIZES) - 1)
    assert events_in(last.data)[-1] == bytes([len(SIZES)]) * SIZES[-1]
    batches = await earlier.read(f"SELECT batch_id FROM {earlier.table('steps')} WHERE run_id = 'large' ORDER BY base")
    assert batches == [("",), ("",), ("",), ("last",)]


async def test_durability_7_a_file_of_version_4_is_upgraded(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    db = sqlite3.connect(path)
    db.executescript((HERE / "sqlite_v4.sql").read_text())
    before = db.execute("SELECT run_id, base, last_seq, batch_id, data, inputs FROM steps ORDER BY base").fetchall()
    db.close()
    run_id = before[0][0]
    journal = SqliteJournal(path)
    for _ in range(2):
        await journal.open()
        steps = await journal.steps(run_id)
        assert [(step.base, step.last_seq, step.data) for step in steps] == [(row[1], row[2], row[4]) for row in before]
        assert await journal.inputs(run_id) == [(row[1], row[5]) for row in before]
        run = await load_run(journal, run_id)
        assert run.ended
        assert run.last_seq == before[-1][2]
        await journal.close()
    db = sqlite3.connect(path)
    assert db.execute("SELECT value FROM meta WHERE key = 'version'").fetchone() == (str(schema.VERSION),)
    assert db.execute("SELECT name FROM sqlite_master WHERE name LIKE 'steps%'").fetchall() == [("steps",)]
    assert db.execute("SELECT run_id, base, last_seq, batch_id, data, inputs FROM steps").fetchall() == before
    db.close()
