"""The PostgreSQL journal on a real disk that is full."""

from __future__ import annotations

import os
import subprocess

import pytest

from archon.errors import ResourceExhausted
from archon_services.orchestrator.journal import Outcome, RecordRow
from archon_services.orchestrator.journal.postgres import PostgresJournal
from tests.fixtures.journal import create, creation, new_run, step, store
from tests.fixtures.postgres import PostgresServer
from tests.fixtures.small_disk import SmallDisk, small_disk

__all__ = ["small_disk"]


async def test_a_full_disk_refuses_steps_until_there_is_room(small_disk: SmallDisk) -> None:
    with PostgresServer() as server:
        journal = PostgresJournal(small_disk.database(server))
        await journal.open()
        await create(journal, "r")
        acknowledged: list[str] = []
        with pytest.raises(ResourceExhausted, match="disk") as refused:
            for n in range(500):
                large = os.urandom(200_000).hex()
                record = RecordRow("role", large.encode())
                await store(journal, creation(new_run(f"n{n}"), records=(record,), time=1.0 + n))
                acknowledged.append(f"n{n}")
        assert refused.value.retry_delay
        assert acknowledged
        assert await journal.open_runs() == ["r", *acknowledged], "exactly the acknowledged runs are stored"
        subprocess.run(["mount", "-o", "remount,size=200m", small_disk.folder], check=True)
        assert await store(journal, step("r", 1)) is Outcome.DONE
        await store(journal, creation(new_run("more"), records=(RecordRow("role", os.urandom(200_000)),)))
        await journal.close()
