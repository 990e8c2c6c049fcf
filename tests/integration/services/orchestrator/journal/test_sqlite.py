"""The SQLite journal: killed processes, full disks, groups of writes, and writes of a run's row."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path
from typing import Literal

import pytest

from archon.errors import ArchonError, DataLoss, ResourceExhausted
from archon_services.orchestrator.journal import Outcome, Turn
from archon_services.orchestrator.journal.sqlite.journal import SqliteJournal
from tests.fixtures.journal import commit_group, create, creation, new_run, step, store, stored_events

APPENDER = """
import asyncio, sys
from pathlib import Path
from archon_services.orchestrator.journal.sqlite.journal import SqliteJournal
from tests.fixtures.journal import create, step, store

async def main():
    journal = SqliteJournal(Path(sys.argv[1]), sync=sys.argv[2])
    await journal.open()
    await create(journal, "r")
    for seq in range(1, 1_000_000):
        await store(journal, step("r", seq, changed=seq % 3 == 0))
        print(seq + 1, flush=True)

asyncio.run(main())
"""


@pytest.mark.parametrize("sync", ["full", "normal"])
async def test_durability_4_a_killed_process_loses_no_step(sync: str, tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    root = Path(__file__).parents[5]
    process = subprocess.Popen(
        [sys.executable, "-c", APPENDER, str(path), sync], stdout=subprocess.PIPE, text=True, cwd=root
    )
    assert process.stdout is not None
    acknowledged = 0
    while acknowledged < 200:
        line = await asyncio.to_thread(process.stdout.readline)
        acknowledged = int(line)
    process.send_signal(signal.SIGKILL)
    rest = process.stdout.read().split()
    process.wait(10)
    acknowledged = max([acknowledged, *map(int, rest)])
    journal = SqliteJournal(path)
    await journal.open()
    row = await journal.run("r")
    assert row is not None
    assert row.last_seq >= acknowledged
    assert len(await stored_events(journal, "r")) == row.last_seq
    await journal.close()


async def test_durability_5_a_full_disk_refuses_until_there_is_room(
    tmp_path: Path,
) -> None:
    journal = SqliteJournal(tmp_path / "journal.db")
    await journal.open()
    await create(journal, "r")
    assert journal._connection is not None
    (pages,) = journal._connection.execute("PRAGMA page_count").fetchone()
    journal._connection.execute(f"PRAGMA max_page_count = {pages + 1}")
    with pytest.raises(ResourceExhausted) as refused:
        for n in range(200):
            await create(journal, f"n{n}", count=50)
    assert refused.value.retry_delay
    assert len(await stored_events(journal, "r")) == 1
    journal._connection.execute("PRAGMA max_page_count = 1000000")
    assert await store(journal, step("r", 1)) is Outcome.DONE
    await journal.close()


async def test_a_file_that_is_not_a_journal_raises_data_loss(tmp_path: Path) -> None:
    (tmp_path / "journal.db").write_bytes(b"this is no database, " * 100)
    journal = SqliteJournal(tmp_path / "journal.db")
    with pytest.raises(DataLoss):
        await journal.open()
    await journal.close()


async def test_a_creation_that_is_refused_fails_alone(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "journal.db")
    await journal.open()
    good = [create(journal, f"g{n}") for n in range(10)]
    bad = [store(journal, creation(new_run("g0"), batch=f"another {n}")) for n in range(3)]
    results = await asyncio.gather(*good, *bad, return_exceptions=True)
    assert sum(isinstance(result, ArchonError) for result in results) == 3
    assert len(await journal.open_runs()) == 10
    await journal.close()


async def test_durability_4_waiting_steps_share_a_transaction(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "journal.db")
    await journal.open()
    assert journal._connection is not None
    commits = 0

    def trace(statement: str) -> None:
        nonlocal commits
        commits += statement == "COMMIT"

    journal._connection.set_trace_callback(trace)
    await asyncio.gather(*(create(journal, f"r{n}") for n in range(200)))
    assert commits <= 20
    await journal.close()


DIES_OPEN = """
import asyncio, os, sys
from pathlib import Path
from archon_services.orchestrator.journal.sqlite.journal import SqliteJournal

async def main():
    await SqliteJournal(Path(sys.argv[1])).open()
    os.kill(os.getpid(), 9)

asyncio.run(main())
"""


async def test_durability_5_a_killed_holder_frees_the_file_at_once(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    process = subprocess.run([sys.executable, "-c", DIES_OPEN, str(path)], timeout=30)
    assert process.returncode == -signal.SIGKILL
    journal = SqliteJournal(path)
    await journal.open()
    await journal.close()


async def test_the_queue_of_writes_has_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("archon_services.common.sqlite_writer.MAX_WAITING", 5)
    journal = SqliteJournal(tmp_path / "journal.db", sync="full")
    await journal.open()
    try:
        await create(journal, "r")
        results = await asyncio.gather(*(create(journal, f"r{number}") for number in range(50)), return_exceptions=True)
        refused = [error for error in results if isinstance(error, ResourceExhausted)]
        assert refused
        assert all(error.retry_delay for error in refused)
        assert len(await journal.runs(tenant="default")) == 51 - len(refused), "a refused run was stored"
        assert await create(journal, "later") is Outcome.DONE
    finally:
        await journal.close()


@pytest.mark.parametrize("sync", ["full", "normal"])
async def test_the_row_of_a_run_is_written_at_changes_of_state_only(
    tmp_path: Path, sync: Literal["full", "normal"]
) -> None:
    journal = SqliteJournal(tmp_path / "journal.db", sync=sync)
    await journal.open()
    assert journal._connection is not None
    journal._connection.executescript(
        "CREATE TABLE writes (run_id TEXT, kind TEXT);"
        "CREATE TRIGGER inserts AFTER INSERT ON runs BEGIN INSERT INTO writes VALUES (new.run_id, 'insert'); END;"
        "CREATE TRIGGER updates AFTER UPDATE ON runs BEGIN INSERT INTO writes VALUES (new.run_id, 'update'); END;"
    )

    async def writes() -> list[str]:
        return [row[0] for row in await journal._read("SELECT kind FROM writes ORDER BY rowid")]

    await create(journal, "r")
    assert await writes() == ["insert"]
    for base in range(1, 6):
        assert await store(journal, step("r", base)) is Outcome.DONE
    again, stale, unknown = (
        step("r", 5, changed=True),
        step("r", 2, batch="x", changed=True),
        step("u", 1, changed=True),
    )
    assert list(await commit_group(journal, again, stale, unknown)) == [Outcome.DONE, Outcome.STALE, Outcome.DEPOSED]
    assert await writes() == ["insert"], "steps without a change of state, and refused steps, write no row"
    row = await journal.run("r")
    assert row is not None and row.last_seq == 6
    assert await store(journal, step("r", 6, changed=True, state=4)) is Outcome.DONE
    assert await writes() == ["insert", "update"]
    turn = Turn("default", "s", "clerk", 1, b"turn")
    assert await store(journal, step("r", 7, turns=(turn,))) is Outcome.DONE
    assert await store(journal, step("r", 8, ended=True, state=3)) is Outcome.DONE
    assert await writes() == ["insert", "update", "update"]
    await journal.close()


async def test_a_group_of_steps_is_one_transaction(tmp_path: Path) -> None:
    for sync in ("full", "normal"):
        journal = SqliteJournal(tmp_path / f"{sync}.db", sync="full" if sync == "full" else "normal")
        await journal.open()
        await commit_group(journal, *(creation(new_run(f"r{n}")) for n in range(50)))
        assert journal._connection is not None
        statements: list[str] = []
        journal._connection.set_trace_callback(statements.append)
        results = await commit_group(journal, *(step(f"r{n}", 1) for n in range(50)))
        journal._connection.set_trace_callback(None)
        assert set(results) == {Outcome.DONE}
        assert sum(statement == "COMMIT" for statement in statements) == 1
        assert sum("INSERT INTO steps" in statement for statement in statements) == 50
        assert not any(statement.lstrip().startswith("UPDATE") for statement in statements)
        await journal.close()
