"""A journal whose write-ahead log is cut, damaged or missing does not start without a word: commits would be lost."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from archon.errors import FailedPrecondition
from archon_services.orchestrator.journal.sqlite import last_commit
from archon_services.orchestrator.journal.sqlite.identity import OVERRIDE
from archon_services.orchestrator.journal.sqlite.journal import SqliteJournal
from archon_services.orchestrator.journal.sqlite.last_commit import LastCommit, _Remembered
from tests.fixtures.journal import create, step, store, stored_events
from tests.integration.services.orchestrator.journal.test_sqlite_identity import appender

COMMITS = 40


def wal(path: Path) -> Path:
    return Path(f"{path}-wal")


async def killed(path: Path, sync: str = "normal", commits: int = COMMITS) -> int:
    """Runs a process that commits, and kills it. Returns the last event that it has acknowledged."""
    process = appender(path, sync)
    assert process.stdout is not None
    last = 0
    for _ in range(commits):
        last = int(await asyncio.to_thread(process.stdout.readline))
    process.kill()
    rest = await asyncio.to_thread(process.stdout.read)  # `communicate` would miss what readline has buffered
    process.wait(20)
    return max([last, *(int(line) for line in rest.splitlines(keepends=True) if line.endswith("\n"))])


async def events(path: Path, sync: str = "normal", *, reset: bool = False) -> int:
    """Opens the journal, and returns the number of the run's events."""
    journal = SqliteJournal(path, sync=sync, reset=reset)  # type: ignore[arg-type]
    try:
        await journal.open()
        return len(await stored_events(journal, "r"))
    finally:
        await journal.close()


def cut_to_half(log: Path) -> None:
    os.truncate(log, log.stat().st_size // 2)


def cut_the_last_frame(log: Path) -> None:
    os.truncate(log, log.stat().st_size - 10)


def empty(log: Path) -> None:
    os.truncate(log, 0)


def remove(log: Path) -> None:
    log.unlink()


def flip(where: float) -> Callable[[Path], None]:
    def harm(log: Path) -> None:
        content = bytearray(log.read_bytes())
        content[int(where * (len(content) - 1))] ^= 0x10
        log.write_bytes(content)

    harm.__name__ = f"flip_at_{where:g}"
    return harm


HARMS = [cut_to_half, cut_the_last_frame, empty, remove, *map(flip, (0.0, 0.004, 0.1, 0.35, 0.6, 0.9, 0.99))]


QUICK = HARMS[::3]


@pytest.mark.parametrize(
    ("harm", "sync"),
    [
        pytest.param(harm, sync, marks=[] if harm in QUICK else pytest.mark.slow, id=f"{harm.__name__}-{sync}")
        for harm in HARMS
        for sync in ("normal", "full")
    ],
)
async def test_a_start_stops_with_a_sentence_and_leaves_everything_as_it_is(
    tmp_path: Path, harm: Callable[[Path], None], sync: str
) -> None:
    path = tmp_path / "journal.db"
    await killed(path, sync)
    os.truncate(wal(path), last_commit_end(path))  # without what is free, or was not acknowledged
    harm(wal(path))
    left = wal(path).read_bytes() if wal(path).exists() else None
    for _ in range(2):
        with pytest.raises(FailedPrecondition, match="ends before its last commit") as stopped:
            await events(path, sync)
        assert OVERRIDE in str(stopped.value)
        assert (wal(path).read_bytes() if wal(path).exists() else None) == left
    base = remembered(path).base
    left_over = await events(path, sync, reset=True)
    assert left_over <= base, "the last step at least is lost"
    assert await events(path, sync) == left_over


def last_commit_end(path: Path) -> int:
    """Returns the offset in the log at which the last remembered commit ends."""
    return 32 + remembered(path).position.frames * (24 + 4096)


def remembered(path: Path) -> _Remembered:
    """Returns what the lock file says of the last commit."""
    lock_file = os.open(f"{path}.lock", os.O_RDONLY)
    found = LastCommit(path, lock_file, durability="normal", reset=False).read()
    os.close(lock_file)
    return found[0]


@pytest.mark.parametrize("sync", ["normal", "full"])
async def test_a_killed_process_loses_nothing_and_starts_again(tmp_path: Path, sync: str) -> None:
    path = tmp_path / "journal.db"
    for _ in range(2):
        last = await killed(path, sync, commits=5)
        assert await events(path, sync) >= last
        await drop_run(path)


async def drop_run(path: Path) -> None:
    """Deletes the run, as retention does."""
    journal = SqliteJournal(path, sync="normal")
    await journal.open()
    await store(journal, step("r", len(await stored_events(journal, "r")), ended=True, time=1.0))
    await journal.delete(10.0, 10.0, 1.0)
    await journal.close()


async def test_a_log_that_another_program_wrote_back_is_no_loss(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    last = await killed(path)
    with sqlite3.connect(path) as db:
        assert db.execute("SELECT count(*) FROM runs").fetchone() == (1,)
    db.close()  # the last connection: SQLite writes the log back, and removes it
    assert not wal(path).exists()
    assert await events(path) >= last


async def test_a_log_that_was_begun_anew_and_then_lost_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    await killed(path)
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    last = await killed_again(path)
    remove(wal(path))
    with pytest.raises(FailedPrecondition, match=r"ends before its last commit|is an older copy"):
        await events(path)
    assert await events(path, reset=True) < last


async def killed_again(path: Path) -> int:
    """Appends to the run in a copy of the files, as a killed process leaves them. Returns its last event."""
    journal = SqliteJournal(path, sync="normal")
    await journal.open()
    first = len(await stored_events(journal, "r"))
    for number in range(5):
        await store(journal, step("r", first + number, changed=False))
    for name in (path.name, wal(path).name, f"{path.name}.lock"):
        shutil.copy(path.with_name(name), path.with_name(f"{name}.copy"))
    await journal.close()
    for name in (path.name, wal(path).name, f"{path.name}.lock"):
        path.with_name(f"{name}.copy").replace(path.with_name(name))
    return first + 5


async def test_a_copy_of_a_killed_journal_opens(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    await killed(path, commits=5)
    last = await killed_again(path)
    assert await events(path) == last


async def test_other_events_under_the_same_numbers_are_noticed(tmp_path: Path) -> None:
    """A program without the check went on after the cut."""
    path = tmp_path / "journal.db"
    await killed(path)
    shutil.copy(f"{path}.lock", tmp_path / "lock")
    cut_to_half(wal(path))
    await events(path, reset=True)
    journal = SqliteJournal(path, sync="normal")
    await journal.open()
    length = len(await stored_events(journal, "r"))
    for number in range(2 * COMMITS):
        await store(journal, step("r", length + number, changed=False, inputs=b"other"))
    await journal.close()
    shutil.copy(tmp_path / "lock", f"{path}.lock")
    with pytest.raises(FailedPrecondition):
        await events(path)


async def test_what_a_power_cut_took_of_a_normal_journal_is_counted_and_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "journal.db"
    await killed(path)
    last = remembered(path).base + 1
    os.truncate(wal(path), last_commit_end(path) - 10)
    monkeypatch.setattr(last_commit, "boot_id", lambda: "another")
    with caplog.at_level(logging.WARNING):
        left = await events(path)
    assert left == last - 1
    (line,) = (each.getMessage() for each in caplog.records if "power cut" in each.getMessage())
    assert "lost 1 of its last commits in a power cut" in line
    caplog.clear()
    assert await events(path) == left
    assert not [each for each in caplog.records if "power cut" in each.getMessage()], "it is said once"


async def test_a_full_journal_does_not_take_a_loss_for_a_power_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "journal.db"
    await killed(path, "full")
    cut_to_half_of_use = last_commit_end(path) // 2
    os.truncate(wal(path), cut_to_half_of_use)
    monkeypatch.setattr(last_commit, "boot_id", lambda: "another")
    with pytest.raises(FailedPrecondition, match="ends before its last commit"):
        await events(path, "full")


async def test_a_deleted_or_compacted_run_is_no_loss(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    for end in ("compact", "delete"):
        journal = SqliteJournal(path, sync="normal")
        await journal.open()
        await create(journal, end)
        await store(journal, step(end, 1, ended=True, time=1.0))
        if end == "compact":
            await journal.compact(end, b"summary")
        else:
            await journal.delete(10.0, 10.0, 1.0)
        await journal.close()  # writes the log back
    await events(path)
