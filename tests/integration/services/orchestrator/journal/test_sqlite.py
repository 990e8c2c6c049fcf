"""What is the SQLite journal's own: what it survives, a full disk, its writer thread."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from archon.errors import ArchonError, DataLoss, ResourceExhausted
from archon_services.orchestrator.journal import Outcome
from archon_services.orchestrator.journal.sqlite.journal import SqliteJournal
from tests.integration.services.orchestrator.journal.test_conformance import new, step

APPENDER = """
import asyncio, sys
from pathlib import Path
from archon_services.orchestrator.journal.sqlite.journal import SqliteJournal
from tests.integration.services.orchestrator.journal.test_conformance import new, step

async def main():
    journal = SqliteJournal(Path(sys.argv[1]), sync=sys.argv[2])
    await journal.open()
    await journal.create(new("r"), step("r", 0))
    for seq in range(1, 1_000_000):
        await journal.append(step("r", seq))
        print(seq + 1, flush=True)

asyncio.run(main())
"""


@pytest.mark.parametrize("sync", ["full", "normal"])
async def test_durability_4_no_acknowledged_append_is_lost_when_the_process_is_killed(
    sync: str, tmp_path: Path
) -> None:
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
    assert len(await journal.events("r", 0, limit=1_000_000)) == row.last_seq
    await journal.close()


async def test_durability_5_a_full_disk_refuses_what_it_cannot_hold_and_goes_on_when_there_is_room(
    tmp_path: Path,
) -> None:
    journal = SqliteJournal(tmp_path / "journal.db")
    await journal.open()
    await journal.create(new("r"), step("r", 0))
    assert journal._connection is not None
    (pages,) = journal._connection.execute("PRAGMA page_count").fetchone()
    journal._connection.execute(f"PRAGMA max_page_count = {pages + 1}")
    with pytest.raises(ResourceExhausted) as refused:
        for n in range(200):
            await journal.create(new(f"n{n}"), step(f"n{n}", 0, 50))
    assert refused.value.retry_delay
    assert len(await journal.events("r", 0)) == 1
    journal._connection.execute("PRAGMA max_page_count = 1000000")
    assert await journal.append(step("r", 1)) is Outcome.DONE
    await journal.close()


async def test_a_file_that_is_no_journal_is_a_typed_error(tmp_path: Path) -> None:
    (tmp_path / "journal.db").write_bytes(b"this is no database, " * 100)
    journal = SqliteJournal(tmp_path / "journal.db")
    with pytest.raises(DataLoss):
        await journal.open()
    await journal.close()


async def test_work_that_raises_hurts_nobody_elses_in_the_same_batch(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "journal.db")
    await journal.open()
    good = [journal.create(new(f"g{n}"), step(f"g{n}", 0)) for n in range(10)]
    bad = [journal.create(new("g0"), step("g0", 0)) for _ in range(3)]
    results = await asyncio.gather(*good, *bad, return_exceptions=True)
    assert sum(isinstance(result, ArchonError) for result in results) == 3
    assert len(await journal.open_runs()) == 10
    await journal.close()


async def test_durability_4_waiting_appends_of_all_runs_share_a_transaction(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "journal.db")
    await journal.open()
    assert journal._connection is not None
    commits = 0

    def trace(statement: str) -> None:
        nonlocal commits
        commits += statement == "COMMIT"

    journal._connection.set_trace_callback(trace)
    await asyncio.gather(*(journal.create(new(f"r{n}"), step(f"r{n}", 0)) for n in range(200)))
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


async def test_durability_5_a_restart_claims_the_file_at_once_after_its_holder_was_killed(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    done = subprocess.run([sys.executable, "-c", DIES_OPEN, str(path)], timeout=30)
    assert done.returncode == -signal.SIGKILL
    journal = SqliteJournal(path)
    await journal.open()
    await journal.close()


async def test_what_waits_to_be_written_has_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("archon_services.common.sqlite_writer.MAX_WAITING", 5)
    journal = SqliteJournal(tmp_path / "journal.db", sync="full")
    await journal.open()
    try:
        await journal.create(new("r"), step("r", 0))
        done = await asyncio.gather(
            *(journal.create(new(f"r{number}"), step(f"r{number}", 0)) for number in range(50)), return_exceptions=True
        )
        refused = [one for one in done if isinstance(one, ResourceExhausted)]
        assert refused
        assert all(one.retry_delay for one in refused)
        assert len(await journal.runs(tenant="default")) == 51 - len(refused), "nothing of them is stored"
        assert await journal.create(new("later"), step("later", 0)) == ("later", True)
    finally:
        await journal.close()
