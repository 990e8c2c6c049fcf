"""A journal file that was removed, replaced, truncated or restored is noticed at the start, and at each commit."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from archon.errors import FailedPrecondition
from archon_services.orchestrator.journal.sqlite.identity import OVERRIDE, check_is_journal
from archon_services.orchestrator.journal.sqlite.journal import SqliteJournal
from tests.fixtures.journal import create, stored_events
from tests.fixtures.variants import one_in

APPENDER = """
import asyncio, logging, sys
from pathlib import Path
from archon_services.orchestrator.journal.sqlite.journal import SqliteJournal
from tests.fixtures.journal import create, step, store

async def main():
    logging.basicConfig()
    journal = SqliteJournal(Path(sys.argv[1]), sync=sys.argv[2])
    await journal.open()
    await create(journal, "r")
    for seq in range(1, 1_000_000):
        await store(journal, step("r", seq, changed=False))
        print(seq + 1, flush=True)

asyncio.run(main())
"""


async def opened(path: Path, run: str = "", *, reset: bool = False) -> None:
    """Opens the journal, creates a run if one is named, and closes it."""
    journal = SqliteJournal(path, reset=reset)
    try:
        await journal.open()
        if run:
            await create(journal, run)
    finally:
        await journal.close()


def files(path: Path) -> list[Path]:
    return [path, Path(f"{path}-wal"), Path(f"{path}-shm")]


def remove(path: Path) -> None:
    for file in files(path):
        file.unlink(missing_ok=True)


def unlink(path: Path) -> None:
    path.unlink()


def exchange(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(path.read_bytes())
    other.replace(path)


def empty(path: Path) -> None:
    remove(path)
    path.touch()


def replace(path: Path) -> None:
    remove(path)
    asyncio.run(opened(path.with_name("other.db"), "other"))
    shutil.copy(path.with_name("other.db"), path)


def restore(path: Path) -> None:
    remove(path)
    shutil.copy(path.with_name("copy.db"), path)


@pytest.mark.parametrize(
    ("harm", "reason"),
    [
        (remove, "existed before, and is missing or empty"),
        (empty, "existed before, and is missing or empty"),
        (replace, "was replaced by another one since its last start"),
        (restore, "is an older copy"),
    ],
)
async def test_a_start_stops_with_a_sentence_and_the_flag(
    tmp_path: Path, harm: Callable[[Path], None], reason: str
) -> None:
    path = tmp_path / "journal.db"
    await opened(path, "r1")
    shutil.copy(path, tmp_path / "copy.db")
    await opened(path, "r2")
    await asyncio.to_thread(harm, path)
    for _ in range(2):
        with pytest.raises(FailedPrecondition) as stopped:
            await opened(path)
        assert reason in str(stopped.value)
        assert OVERRIDE in str(stopped.value)
    await opened(path, "r3", reset=True)
    await opened(path)


async def test_the_same_file_opens_again_and_again(tmp_path: Path) -> None:
    for number in range(4):
        await opened(tmp_path / "journal.db", f"r{number}")
    with sqlite3.connect(tmp_path / "journal.db") as db:
        assert db.execute("SELECT value FROM meta WHERE key = 'generation'").fetchone() == ("4",)
        assert db.execute("SELECT count(*) FROM runs").fetchone() == (4,)
    db.close()


async def test_a_journal_of_an_earlier_version_gets_an_identity(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    await opened(path, "r")
    with sqlite3.connect(path) as db:
        db.execute("DELETE FROM meta WHERE key IN ('identity', 'generation')")
    db.close()
    empty(Path(f"{path}.lock"))
    await opened(path)
    remove(path)
    with pytest.raises(FailedPrecondition):
        await opened(path)


async def test_the_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE customers (name TEXT)")
    db.close()
    with pytest.raises(FailedPrecondition, match="is the database of another program"):
        await opened(path)
    with sqlite3.connect(path) as db:
        assert db.execute("SELECT name FROM sqlite_master").fetchall() == [("customers",)]
    db.close()


async def test_a_path_below_a_file_is_one_sentence(tmp_path: Path) -> None:
    file = tmp_path / "file"
    empty(file)
    with pytest.raises(FailedPrecondition, match="cannot be used: "):
        await opened(tmp_path / "file" / "journal.db")


def truncate_to_nothing(path: Path) -> None:
    os.truncate(path, 0)


def truncate_to_half(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 8192 * 4096)


def truncate_within_a_page(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1_000)


TRUNCATIONS = [truncate_to_nothing, truncate_to_half, truncate_within_a_page]


async def filled(path: Path) -> None:
    """Creates a journal of many pages, and closes it."""
    journal = SqliteJournal(path)
    await journal.open()
    for number in range(100):
        await create(journal, f"before{number}", count=100)
    await journal.close()


@pytest.mark.parametrize("truncate", TRUNCATIONS)
async def test_a_truncated_journal_does_not_start(tmp_path: Path, truncate: Callable[[Path], None]) -> None:
    path = tmp_path / "journal.db"
    await filled(path)
    truncate(path)
    size = path.stat().st_size
    with pytest.raises(FailedPrecondition) as stopped:
        await opened(path)
    assert ("is truncated (it has" if size else "missing or empty") in str(stopped.value)
    assert OVERRIDE in str(stopped.value)
    assert path.stat().st_size == size, "it is left as it is"


async def test_a_moved_away_journal_begins_anew_with_the_flag(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    await filled(path)
    truncate_to_half(path)
    path.rename(tmp_path / "damaged.db")
    await opened(path, "new", reset=True)
    again = SqliteJournal(path)
    await again.open()
    assert await again.open_runs() == ["new"]
    await again.close()


async def test_an_interrupted_checkpoint_is_no_truncation(tmp_path: Path) -> None:
    """A checkpoint writes the first page, with the new number of pages, before it extends the file."""
    path, complete = tmp_path / "journal.db", tmp_path / "complete.db"
    journal = SqliteJournal(path)
    await journal.open()
    for number in range(100):
        await create(journal, f"r{number}", count=100)
    for file in files(path)[:2]:
        shutil.copy(file, str(file).replace("journal", "complete"))
    shutil.copy(f"{path}-wal", tmp_path / "wal")
    await journal.close()
    with sqlite3.connect(complete) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    remove(path)
    path.write_bytes(complete.read_bytes()[:4096])
    shutil.copy(tmp_path / "wal", f"{path}-wal")
    again = SqliteJournal(path)
    await again.open()
    assert len(await again.open_runs()) == 100
    await again.close()


async def test_a_vacuum_by_another_program_is_no_truncation(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    await filled(path)
    journal = SqliteJournal(path)
    await journal.open()
    await create(journal, "r")
    with sqlite3.connect(path, isolation_level=None) as db:
        size = path.stat().st_size
        db.execute("DELETE FROM steps WHERE run_id > 'before2' AND run_id < 'c'")
        db.execute("VACUUM")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        assert path.stat().st_size < size
    db.close()
    for number in range(20):
        await create(journal, f"after{number}", count=100)
    assert await journal.run("after19") is not None
    await journal.close()
    await opened(path)


@pytest.mark.parametrize("sync", ["full", "normal"])
@pytest.mark.parametrize("truncate", one_in(3, TRUNCATIONS))
async def test_a_process_whose_file_is_truncated_exits_at_a_commit(
    tmp_path: Path, sync: str, truncate: Callable[[Path], None]
) -> None:
    path = tmp_path / "journal.db"
    await filled(path)
    process = appender(path, sync)
    assert process.stdout is not None
    for _ in range(20):
        await asyncio.to_thread(process.stdout.readline)
    truncate(path)
    _, errors = await asyncio.to_thread(process.communicate, timeout=20)
    assert process.returncode == 74
    assert f"the journal {path} was truncated: it has " in errors
    assert "what it writes would be lost" in errors
    journal = SqliteJournal(path)
    if truncate is truncate_within_a_page:  # the WAL has the last page
        await journal.open()
        for number in range(100):
            assert len(await stored_events(journal, f"before{number}")) == 100
    else:
        with pytest.raises(FailedPrecondition):
            await journal.open()
    await journal.close()


def appender(path: Path, sync: str) -> subprocess.Popen[str]:
    """Starts a process that creates a run and commits one step after the other."""
    return subprocess.Popen(
        [sys.executable, "-c", APPENDER, str(path), sync],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[5],
    )


@pytest.mark.parametrize("sync", ["full", "normal"])
@pytest.mark.parametrize("harm", ["removed", "replaced"])
async def test_a_process_whose_file_is_gone_exits_at_the_next_commit(tmp_path: Path, sync: str, harm: str) -> None:
    path = tmp_path / "journal.db"
    process = appender(path, sync)
    assert process.stdout is not None
    for _ in range(20):
        await asyncio.to_thread(process.stdout.readline)
    unlink(path) if harm == "removed" else exchange(path)
    _, errors = await asyncio.to_thread(process.communicate, timeout=20)
    assert process.returncode == 74
    assert f"the journal {path} was {harm}" in errors
    assert "what it writes would be lost" in errors


async def test_a_first_start_that_was_struck_before_its_tables_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID")
        check_is_journal(path, db)
        db.execute("CREATE TABLE customers (name TEXT)")
        with pytest.raises(FailedPrecondition, match="another program"):
            check_is_journal(path, db)
