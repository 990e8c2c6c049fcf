"""Journals of plans in files: what they survive, and what they refuse without changing it."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sqlite3
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from archon.errors import ArchonError, DataLoss, FailedPrecondition, ResourceExhausted
from archon_mesh.planning import FileJournal, JournalInUse, JournalMismatch
from archon_mesh.planning.journal import APPLICATION_ID
from tests.fixtures.programs import program
from tests.fixtures.small_disk import SmallDisk
from tests.fixtures.waiting import until
from tests.unit.mesh.planning.workers import FunctionWorker, executor_of, plan

BOOKING = """
import asyncio, sys
from pathlib import Path
from archon_mesh.planning import PlanExecutor, SubTask, Task
from tests.unit.mesh.planning.workers import FunctionWorker

journal, ledger, stuck = sys.argv[1], Path(sys.argv[2]), sys.argv[3]

async def think(message):
    name = message.splitlines()[0]
    with ledger.open("a") as file:
        file.write(f"begin {name}\\n")
    if name == stuck:
        await asyncio.Event().wait()
    with ledger.open("a") as file:
        file.write(f"end {name}\\n")
    return name

async def main():
    executor = PlanExecutor(FunctionWorker(think=think), journal=journal)
    if Path(journal).exists():
        task = await executor.resume_from()
    else:
        steps = tuple(SubTask(f"s{n}", f"s{n}", dependencies=(f"s{n - 1}",) if n else ()) for n in range(4))
        task = await executor.execute(Task("t", "Do it", "Do it", steps))
    print(*(each.status for each in task.subtasks))

asyncio.run(main())
"""


KILLED = """
import asyncio, sys
from pathlib import Path
from archon_mesh.planning import PlanExecutor, SubTask, Task
from archon_mesh.tools import tool
from tests.unit.mesh.planning.workers import FunctionWorker

journal, ledger = sys.argv[1], Path(sys.argv[2])

def note(line):
    with ledger.open("a") as file:
        file.write(line + "\\n")

@tool
async def act(work: str) -> str:
    note(f"act {work}")
    await asyncio.sleep(0.05)
    return work

async def think(message):
    await asyncio.sleep(0.05)
    return message.splitlines()[0]

def step(number):
    name = "act" if number % 3 == 0 else ""
    fields = {"tool_name": name, "tool_args": {"work": f"s{number}"}} if name else {}
    on = tuple(f"s{n}" for n in (number - 1, number - 2) if n >= 0 and number % 4)
    return SubTask(f"s{number}", f"s{number}", dependencies=on, partial_input=True, **fields)

async def main():
    executor = PlanExecutor(FunctionWorker([act], think=think), journal=journal, max_parallel=2)
    try:
        task = await executor.resume_from()
    except Exception as error:
        if "holds no plan yet" not in str(error):
            raise
        task = await executor.execute(Task("t", "Do it", "Do it", tuple(map(step, range(16)))))
    note("ended " + " ".join(each.status for each in task.subtasks))

asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
async def test_a_process_that_is_killed_again_and_again_never_acts_twice(tmp_path: Path, seed: int) -> None:
    journal, ledger, dice = tmp_path / "a.journal", tmp_path / "ledger", random.Random(seed)
    kills = 0
    for number in range(60):
        async with program(["-c", KILLED, str(journal), str(ledger)], dict(os.environ), tmp_path / "out") as process:
            try:
                code = await process.wait(dice.uniform(0.1, 0.3) * (1 + number / 5))
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                await process.wait(10)
                kills += 1
                continue
            assert code == 0, process.errors
            break
    lines = ledger.read_text().splitlines()
    acts = [line for line in lines if line.startswith("act")]
    assert kills
    assert len(acts) == len(set(acts))
    # One that was killed after its end has written it; the next one writes the same.
    (end,) = {tuple(line.split()[1:]) for line in lines if line.startswith("ended")}
    assert set(end) <= {"completed", "failed"}
    assert len(end) == 16


def stored(path: Path) -> list[bytes]:
    journal = FileJournal(path, sync="normal")
    try:
        return list(journal.open())
    finally:
        journal.close()


def written(path: Path, *records: bytes) -> None:
    journal = FileJournal(path)
    journal.open()
    for record in records:
        journal.append([record])
    journal.close()


async def test_a_killed_process_is_followed_by_another(tmp_path: Path) -> None:
    journal, ledger, out = tmp_path / "trip.journal", tmp_path / "ledger", tmp_path / "out"
    environment = dict(os.environ)
    arguments = ["-c", BOOKING, str(journal), str(ledger)]
    async with program([*arguments, "s2"], environment, out) as first:
        await until(lambda: ledger.exists() and "begin s2" in ledger.read_text(), within=30)
        with pytest.raises(JournalInUse, match=r"in use by process \d+: wait for its end, or choose another file"):
            FileJournal(journal).open()
        first.send_signal(signal.SIGKILL)
        await first.wait(10)
    async with program([*arguments, "none"], environment, out) as second:
        assert await second.wait(30) == 0, second.errors
    lines = ledger.read_text().splitlines()
    assert [line for line in lines if line.startswith("end")] == ["end s0", "end s1", "end s2", "end s3"]
    assert lines.count("begin s2") == 2
    assert out.read_text().split() == ["completed"] * 4


def test_records_are_read_in_the_order_of_their_appends(tmp_path: Path) -> None:
    path = tmp_path / "a.journal"
    journal = FileJournal(path)
    assert list(journal.open()) == []
    journal.append([b"1", b"2"])
    journal.append([])
    journal.append([b"\x00\xff"])
    journal.close()
    journal.close()
    assert stored(path) == [b"1", b"2", b"\x00\xff"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_journal_can_be_moved_and_copied_at_rest(tmp_path: Path) -> None:
    written(tmp_path / "a.journal", b"1", b"2")
    (tmp_path / "a.journal").rename(tmp_path / "b.journal")
    (tmp_path / "c.journal").write_bytes((tmp_path / "b.journal").read_bytes())
    assert stored(tmp_path / "b.journal") == stored(tmp_path / "c.journal") == [b"1", b"2"]


def test_an_empty_file_is_a_new_journal(tmp_path: Path) -> None:
    path = tmp_path / "a.journal"
    path.touch()
    assert stored(path) == []


@pytest.mark.parametrize("content", [b"not a journal at all\n" * 100, b"x", b"SQLite", os.urandom(5000), b"%PDF-1.7\n"])
def test_a_foreign_file_is_refused_and_left_as_it_is(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.journal"
    path.write_bytes(content)
    with pytest.raises(JournalMismatch, match="is no journal of a plan: choose another file"):
        FileJournal(path).open()
    assert path.read_bytes() == content


def test_a_database_of_another_program_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE users (name TEXT)")
    db.close()
    before = path.read_bytes()
    with pytest.raises(JournalMismatch, match="a database of another program"):
        FileJournal(path).open()
    assert path.read_bytes() == before


def test_a_journal_of_a_newer_version_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "a.journal"
    written(path, b"1")
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version = 2")
    db.commit()
    db.close()
    before = path.read_bytes()
    with pytest.raises(JournalMismatch, match="newer version of Archon"):
        FileJournal(path).open()
    assert path.read_bytes() == before


def test_a_damaged_record_is_found_by_its_checksum(tmp_path: Path) -> None:
    path = tmp_path / "a.journal"
    written(path, b"first", b"second record", b"third")
    content = path.read_bytes()
    assert content.count(b"second record") == 1
    damaged = content.replace(b"second record", b"second recorD")
    path.write_bytes(damaged)
    with pytest.raises(DataLoss, match="damaged at record 2: restore the file"):
        FileJournal(path).open()
    assert path.read_bytes() == damaged


def test_a_missing_record_is_found(tmp_path: Path) -> None:
    path = tmp_path / "a.journal"
    written(path, b"1", b"2", b"3")
    db = sqlite3.connect(path)
    db.execute("DELETE FROM records WHERE seq = 2")
    db.commit()
    db.close()
    with pytest.raises(DataLoss, match="damaged at record 2"):
        FileJournal(path).open()


@pytest.mark.parametrize("size", [100, 4096, 5000, 8192])
def test_a_truncated_file_is_data_loss_or_no_journal(tmp_path: Path, size: int) -> None:
    path = tmp_path / "a.journal"
    written(path, *(bytes(1000) for _ in range(20)))
    content = path.read_bytes()[:size]
    path.write_bytes(content)
    with pytest.raises((DataLoss, JournalMismatch, FailedPrecondition)) as caught:
        FileJournal(path).open()
    assert isinstance(caught.value, ArchonError)
    assert path.read_bytes() == content


@pytest.mark.parametrize("every", [397, pytest.param(7, marks=pytest.mark.slow)])
def test_bytes_changed_anywhere_are_never_read_as_others(tmp_path: Path, every: int) -> None:
    path = tmp_path / "a.journal"
    records = [b"record %d" % number for number in range(10)]
    written(path, *records)
    content = path.read_bytes()
    for position in range(0, len(content), every):
        path.write_bytes(content[:position] + bytes([content[position] ^ 0x41]) + content[position + 1 :])
        try:
            found = stored(path)
        except ArchonError:
            continue
        assert found == records, position


def test_one_process_does_not_open_a_journal_twice(tmp_path: Path) -> None:
    journal = FileJournal(tmp_path / "a.journal")
    journal.open()
    with pytest.raises(JournalInUse):
        journal.open()
    with pytest.raises(JournalInUse, match=f"by process {os.getpid()}"):
        FileJournal(tmp_path / "a.journal").open()
    journal.close()
    assert stored(tmp_path / "a.journal") == []


def test_a_fork_does_not_write_to_the_journal(tmp_path: Path) -> None:
    journal = FileJournal(tmp_path / "a.journal")
    journal.open()
    if not (child := os.fork()):
        try:
            journal.append([b"of the child"])
        except JournalInUse as error:
            os._exit(7 if "from which this one was forked" in str(error) else 8)
        finally:
            os._exit(9)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 7
    journal.append([b"of the parent"])
    journal.close()
    assert stored(tmp_path / "a.journal") == [b"of the parent"]


@pytest.mark.parametrize("what", ["removed", "moved", "replaced"])
def test_a_file_that_is_gone_takes_no_more_records(tmp_path: Path, what: str) -> None:
    path = tmp_path / "a.journal"
    journal = FileJournal(path)
    journal.open()
    journal.append([b"1"])
    path.rename(tmp_path / "elsewhere")
    if what == "removed":
        (tmp_path / "elsewhere").unlink()
    if what == "replaced":
        written(tmp_path / "new", b"other")
        (tmp_path / "new").rename(path)
    with pytest.raises(FailedPrecondition, match="moved, removed or replaced while it was in use"):
        journal.append([b"2"])
    journal.close()
    if what == "moved":
        assert stored(tmp_path / "elsewhere") == [b"1"]


def test_a_journal_that_another_process_has_taken_over_is_not_written(tmp_path: Path) -> None:
    """As when a network file system has lost the lock."""
    path = tmp_path / "a.journal"
    first = FileJournal(path)
    first.open()
    first.append([b"1"])
    Path(f"{path}.lock").unlink()
    second = FileJournal(path)
    assert list(second.open()) == [b"1"]
    second.append([b"2"])
    with pytest.raises(JournalInUse, match="another process has taken the journal"):
        first.append([b"3"])
    first.close()
    second.close()
    assert stored(path) == [b"1", b"2"]


async def test_a_full_disk_stops_the_plan_and_room_lets_it_go_on(small_disk: SmallDisk) -> None:
    path = small_disk.folder / "a.journal"

    async def think(message: str) -> str:
        if message.startswith("b"):
            small_disk.fill()
        return "x" * 100_000

    worker = FunctionWorker(think=think)
    task = plan(
        *({"id": id_, "description": id_, "dependencies": on} for id_, on in (("a", []), ("b", ["a"]), ("c", ["b"])))
    )
    with pytest.raises(ResourceExhausted, match="is full: make room, and go on with the same journal"):
        await executor_of(worker, journal=path).execute(task)
    with pytest.raises(ResourceExhausted):
        await executor_of(worker).resume_from(path)
    small_disk.make_room()
    worker = FunctionWorker(think=lambda message: "y")
    ended = await executor_of(worker).resume_from(path)
    assert [len(each.result) for each in ended.subtasks] == [100_000, 1, 1]


async def test_a_large_result_is_kept(tmp_path: Path) -> None:
    large = "\N{SNOWMAN}" * 1_000_000
    task = plan({"id": "a", "description": "a", "dependencies": []})
    await executor_of(FunctionWorker(think=lambda message: large), journal=tmp_path / "a.journal").execute(task)
    ended = await executor_of(FunctionWorker()).resume_from(tmp_path / "a.journal")
    assert ended.subtasks[0].result == large


def test_a_folder_that_is_missing_or_a_file_that_is_a_folder_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "missing" / "a.journal", tmp_path):
        with pytest.raises(FailedPrecondition, match=r"cannot be used: .*; make the file and its folder writable"):
            FileJournal(path).open()


@pytest.mark.parametrize("is_complete", [True, False])
def test_a_write_that_was_cut_short_is_undone(tmp_path: Path, is_complete: bool) -> None:
    """A process that dies within a commit leaves SQLite's own journal beside the file, by which the next one undoes it.
    Without it, as if the file alone had been copied, half of the write is never read as a whole one."""
    path = tmp_path / "a.journal"
    written(path, b"1")
    dying = (
        "import os, sqlite3, sys\n"
        "db = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "db.execute('PRAGMA cache_size = 1')\n"
        "db.execute('BEGIN IMMEDIATE')\n"
        "for seq in range(2, 200): db.execute('INSERT INTO records VALUES (?, zeroblob(5000), 0)', (seq,))\n"
        "os.kill(os.getpid(), 9)\n"
    )
    assert os.spawnl(os.P_WAIT, sys.executable, sys.executable, "-c", dying, str(path)) == -signal.SIGKILL
    assert Path(f"{path}-journal").exists()
    if is_complete:
        assert stored(path) == [b"1"]
        return
    Path(f"{path}-journal").unlink()
    with suppress(DataLoss):
        assert stored(path) == [b"1"]


def test_the_file_has_the_mark_of_its_program(tmp_path: Path) -> None:
    written(tmp_path / "a.journal", b"1")
    db = sqlite3.connect(tmp_path / "a.journal")
    assert db.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
    db.close()


async def test_plans_beside_each_other_have_journals_of_their_own(tmp_path: Path) -> None:
    async def one(number: int) -> str:
        worker = FunctionWorker(think=lambda message: f"{number}")
        task = plan({"id": "a", "description": "a", "dependencies": []})
        return str((await executor_of(worker, journal=tmp_path / f"{number}.journal").execute(task)).subtasks[0].result)

    assert await asyncio.gather(*map(one, range(10))) == [f"{number}" for number in range(10)]
