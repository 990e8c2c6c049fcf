"""Weaviate killed, restarted and frozen while entries are written through the memory service. It adds no row: no run
takes part."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path

import pytest

from archon.errors import Unavailable
from archon.memory import LongTermMemoryClient
from tests.failures.arena import hold
from tests.fixtures.services import ServiceProcess
from tests.fixtures.waiting import Eventually, until
from tests.fixtures.weaviate import running_weaviate

pytestmark = pytest.mark.slow

FROZEN = 30.0
"""Seconds for which Weaviate is frozen."""

BURST = 300
"""Entries that are written after each change of the store's state: fewer than its outbox holds."""


@pytest.mark.liveness
@pytest.mark.timeout(600)
async def test_weaviate_killed_and_frozen_under_writes(tmp_path: Path, eventually: Eventually) -> None:
    """Every entry whose store was acknowledged is there once, and no other."""
    with running_weaviate() as weaviate:
        settings = ("--registry", "127.0.0.1:9", "--db", str(tmp_path / "memory.db"), "--long-term", weaviate.url)
        process = ServiceProcess("archon_services.memory", tmp_path, *settings)
        await process.start()
        acknowledged: list[str] = []
        allowed = 0
        stopping = asyncio.Event()

        async def write(memory: LongTermMemoryClient) -> None:
            while not stopping.is_set():
                number = len(acknowledged)
                await until(lambda: stopping.is_set() or len(acknowledged) < allowed, within=120)
                acknowledged.append(await memory.store(f"fact {number}", {"user": "ana"}, request_id=f"r{number}"))

        async def written(count: int) -> None:
            nonlocal allowed
            before = len(acknowledged)
            allowed = before + BURST
            await until(lambda: len(acknowledged) >= before + count, within=60)

        try:
            async with LongTermMemoryClient(process.address) as memory:
                writer = asyncio.create_task(write(memory))
                try:
                    await written(20)
                    weaviate.kill()
                    await written(20)
                    await asyncio.to_thread(weaviate.start)
                    await written(20)
                    os.kill(weaviate.pid, signal.SIGSTOP)
                    await hold(FROZEN)
                    await written(5)
                    os.kill(weaviate.pid, signal.SIGCONT)
                    await written(20)
                finally:
                    stopping.set()
                    await asyncio.wait_for(writer, 30)

                async def stored() -> bool:
                    try:
                        stats = await memory.stats()
                    except Unavailable:
                        return False
                    return (stats.active, stats.waiting) == (len(acknowledged), 0)

                await eventually(stored, within=240)
                await memory.export_to(tmp_path / "all.jsonl")
                _, *exported, _ = (tmp_path / "all.jsonl").read_text().splitlines()
                assert sorted(json.loads(line)["id"] for line in exported) == sorted(acknowledged)
        finally:
            await process.close()
