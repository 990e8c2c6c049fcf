"""An orchestrator process whose journal file is damaged or truncated: at its start, and while it runs."""

from __future__ import annotations

import asyncio
import json
import os
import random
import sqlite3
import time
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path

import pytest

from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.client import Client
from archon.errors import DataLoss
from archon.types import TaskState
from archon_services.orchestrator.journal.sqlite import SqliteJournal
from tests.fixtures.damaged_journal import overwrite_page, page_of
from tests.fixtures.journal import commit, new_run, step_of
from tests.fixtures.services import ServiceProcess
from tests.fixtures.waiting import eventually

RUNS = [f"r{number}" for number in range(60)]
OPEN = RUNS[:30]


@pytest.fixture
async def path(tmp_path: Path) -> Path:
    """The file of a journal of 60 runs, half of them open."""
    path = tmp_path / "journal.db"
    journal = SqliteJournal(path)
    await journal.open()
    for run_id in RUNS:
        submitted = run_pb2.RunEvent(run_id=run_id, seq=1)
        submitted.time.GetCurrentTime()
        submitted.submitted.strategy = run_pb2.STRATEGY_PIPELINE
        submitted.submitted.roles.append("a")
        submitted.submitted.goal.add(text=f"the goal of {run_id} " * 50)
        submitted.submitted.timeout.FromSeconds(600)
        created = run_pb2.RunEvent(run_id=run_id, seq=2)
        created.task.task_id = f"{run_id}.1"
        created.task_state.role, created.task_state.state = "a", common_pb2.TASK_STATE_SUBMITTED
        events = [submitted.SerializeToString(), created.SerializeToString()]
        await commit(journal, step_of(run_id, 0, events, time=time.time(), new=new_run(run_id)))
        if run_id not in OPEN:
            end = run_pb2.RunEvent(run_id=run_id, seq=3)
            end.run_state.state = common_pb2.TASK_STATE_CANCELED
            last = step_of(run_id, 2, [end.SerializeToString()], state=5, ended=True, time=time.time())
            await commit(journal, last)
    await journal.close()
    return path


@pytest.fixture
async def orchestrator(path: Path) -> AsyncIterator[ServiceProcess]:
    """An orchestrator of this journal, not started. It compacts runs as soon as they have ended."""
    process = ServiceProcess(
        "archon_services.orchestrator",
        path.parent,
        ARCHON_JOURNAL=str(path),
        ARCHON_REGISTRY="127.0.0.1:1",
        ARCHON_COMPACT_AFTER="1",
        ARCHON_LEASE="1",
    )
    yield process
    await process.close()


def truncate_to_nothing(path: Path) -> None:
    os.truncate(path, 0)


def truncate_to_half(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 8192 * 4096)


def truncate_within_a_page(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2 + 100)


def sentence(orchestrator: ServiceProcess) -> str:
    """Returns the only line that a failed start has logged above the level of info."""
    lines = [json.loads(line) for line in orchestrator.log.read_text().splitlines()]
    (message,) = [line["message"] for line in lines if line["level"] != "info"]
    return str(message)


@pytest.mark.parametrize("truncate", [truncate_to_nothing, truncate_to_half, truncate_within_a_page])
async def test_a_journal_truncated_at_work_ends_the_process(
    path: Path, orchestrator: ServiceProcess, truncate: Callable[[Path], None]
) -> None:
    """Without a request: the heartbeats of the process find out."""
    await orchestrator.start()
    truncate(path)

    async def ended() -> bool:
        return not orchestrator.running

    await eventually(ended, within=10.0)
    assert await orchestrator.stop() == 74
    assert f"the journal {path} was truncated: it has " in orchestrator.log.read_text()
    orchestrator.log.unlink()
    assert await orchestrator.start_or_exit() == 1
    assert "ARCHON_JOURNAL_RESET=1" in sentence(orchestrator)
    assert str(path) in sentence(orchestrator)


async def test_a_truncated_journal_stops_a_start_with_a_sentence(path: Path, orchestrator: ServiceProcess) -> None:
    truncate_to_half(path)
    assert await orchestrator.start_or_exit() == 1
    assert f"the journal {path} is truncated (it has " in sentence(orchestrator)
    assert "restore it, or move it away and start with ARCHON_JOURNAL_RESET=1" in sentence(orchestrator)


@pytest.mark.parametrize("number", [1, 2], ids=["header", "schema"])
async def test_a_damaged_header_stops_a_start_with_a_sentence(
    path: Path, orchestrator: ServiceProcess, number: int
) -> None:
    overwrite_page(path, number, b"\x07\x93\xff")
    assert await orchestrator.start_or_exit() == 1
    assert f"the journal {path} is damaged (" in sentence(orchestrator)
    assert "restore it" in sentence(orchestrator)


@pytest.mark.parametrize("content", [b"\0", random.Random(7).randbytes(4096)], ids=["zeros", "random"])
@pytest.mark.parametrize("victim", ["r3", "r40"], ids=["of open runs", "of ended runs"])
async def test_runs_of_a_damaged_page_are_data_loss_alone(
    path: Path, orchestrator: ServiceProcess, content: bytes, victim: str
) -> None:
    overwrite_page(path, page_of(path, victim), content)
    async with Client(await orchestrator.start()) as client:
        lost: list[str] = []
        for run_id in RUNS:
            try:
                run = await client.get(run_id)
            except DataLoss as error:
                lost.append(error.metadata["run_id"])
            else:
                assert run.run_id == run_id
        assert victim in lost
        assert len(lost) < 8, lost
        assert len(await client.list_runs(limit=100)) == len(RUNS)
        with pytest.raises(DataLoss):
            _ = [event async for event in client.watch(victim)]
        for run_id in (run_id for run_id in OPEN if run_id not in lost):
            run = await client.cancel(run_id)
            assert run.state == TaskState.CANCELED
        good = [run_id for run_id in RUNS if run_id not in lost]

        async def swept() -> bool:
            rows = await asyncio.to_thread(compacted, path)
            return len(rows) > 3 * len(good) // 4 and not rows & set(lost)  # SQLite joins pages next to the damaged one

        await eventually(swept, within=15.0)
    log = orchestrator.log.read_text()
    assert "Traceback" not in log
    assert "background loop" not in log, log
    assert await orchestrator.stop() == 0


def compacted(path: Path) -> set[str]:
    with closing(sqlite3.connect(path)) as db:
        return {run_id for (run_id,) in db.execute("SELECT run_id FROM runs WHERE compacted")}
