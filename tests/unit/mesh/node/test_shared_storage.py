"""Shared storage over a working memory that may fail."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from archon.errors import ArchonError, ResourceExhausted, Unavailable
from archon.memory import WorkingMemoryClient, WorkingValue
from archon_mesh.memory import WorkingMemory
from archon_mesh.node import shared_storage
from archon_mesh.node.shared_storage import SharedStorage


class Served:
    """A client of a run's working memory. All calls raise `error` while it is set; `writes` counts writes."""

    def __init__(self) -> None:
        self.values = WorkingMemory()
        self.error: ArchonError | None = None
        self.writes = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def list_values(self, **_: Any) -> list[WorkingValue]:
        await self._passed()
        return self.values.list_values()

    async def set_json(self, key: str, value_json: str, **_: Any) -> int:
        await self._passed()
        self.writes += 1
        return self.values.set(key, json.loads(value_json))

    async def delete(self, key: str, **_: Any) -> bool:
        await self._passed()
        self.writes += 1
        return self.values.delete(key)

    async def _passed(self) -> None:
        await self.gate.wait()
        if self.error is not None:
            raise self.error


@asynccontextmanager
async def storage_of(served: Served) -> AsyncIterator[SharedStorage]:
    storage = SharedStorage(cast(WorkingMemoryClient, served), "t")
    await storage.refresh()
    try:
        yield storage
    finally:
        await storage.close()


@pytest.fixture
def warnings(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.WARNING, logger="archon_mesh.node.shared_storage"):
        yield caplog


async def test_storage_starts_with_stored_values_and_writes_through() -> None:
    served = Served()
    served.values.update({"k": 1, "plan": ["a"]})
    served.values.set("k", 2)
    async with storage_of(served) as storage:
        assert storage.to_dict() == {"k": 2, "plan": ["a"]}
        assert (storage.version("k"), storage.version("plan")) == (2, 1)
        storage.update(k=3, new={"deep": True})
        storage.pop("plan")
        await storage.flush()
        assert served.values.to_dict() == {"k": 3, "new": {"deep": True}}
        assert storage.version("k") == served.values.version("k") == 3


async def test_storages_of_a_run_share_values_and_the_last_write_wins() -> None:
    served = Served()
    async with storage_of(served) as first, storage_of(served) as second:
        first.set("k", "one")
        await first.flush()
        assert second.get("k") is None
        await second.refresh()
        assert second.get("k") == "one"
        second.set("k", "other")
        await second.flush()
        await first.refresh()
        assert (first.get("k"), served.values.get("k")) == ("other", "other")
        first.pop("k")
        await first.flush()
        await second.refresh()
        assert "k" not in second


async def test_refresh_does_not_revert_pending_writes() -> None:
    served = Served()
    served.values.update({"k": 0, "gone": 0})
    async with storage_of(served) as storage:
        served.gate.clear()
        storage.set("k", "mine")
        storage.pop("gone")
        refreshing = asyncio.create_task(storage.refresh())
        served.values.set("k", "theirs")
        served.gate.set()
        await refreshing
        await storage.flush()
        await storage.refresh()
        assert storage.to_dict() == served.values.to_dict() == {"k": "mine"}


async def test_values_that_are_not_json_stay_local(
    warnings: pytest.LogCaptureFixture,
) -> None:
    served, thing = Served(), object()
    async with storage_of(served) as storage:
        storage.update({"thing": thing, "pair": (1, 2), "numbered": {1: 2}, "": 1, "fine": [1]})
        served.values.set("thing", "theirs")
        await storage.flush()
        await storage.refresh()
        assert storage.get("thing") is thing
        assert served.values.to_dict() == {"thing": "theirs", "fine": [1]}
        storage.pop("thing")
        await storage.flush()
        assert served.values.get("thing") == "theirs"
        storage.set("thing", "mine")
        await storage.flush()
        assert served.values.get("thing") == "mine"
    assert not warnings.records


async def test_key_written_repeatedly_is_pending_once() -> None:
    served = Served()
    async with storage_of(served) as storage:
        served.gate.clear()
        for number in range(1_000):
            storage.set("k", number)
            await asyncio.sleep(0)
        served.gate.set()
        await storage.flush()
        assert (served.values.get("k"), served.writes) == (999, 2)


async def test_values_above_the_pending_limit_stay_local(
    monkeypatch: pytest.MonkeyPatch, warnings: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(shared_storage, "MAX_PENDING", 1_000)
    served = Served()
    async with storage_of(served) as storage:
        for number in range(20):
            storage.set(str(number), "x" * 98)
        await storage.flush()
        assert len(served.values.to_dict()) == 10
        assert len(storage.to_dict()) == 20
        storage.set("10", "there is room again")
        await storage.flush()
        assert "10" in served.values.to_dict()
    assert len(warnings.records) == 1


async def test_unavailable_service_fails_nothing_and_is_logged_once(
    monkeypatch: pytest.MonkeyPatch, warnings: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(shared_storage, "FLUSH_TIMEOUT", 0.2)
    served = Served()
    served.error = Unavailable("down")
    async with storage_of(served) as storage, asyncio.timeout(60):
        storage.set("k", 1)
        await storage.flush(once=True)
        await storage.flush(0.2)
        await storage.refresh()
        assert storage.get("k") == 1
        assert [record.levelname for record in warnings.records] == ["WARNING"]
        served.error = None
        await storage.flush(5.0)
        assert served.values.get("k") == 1
    assert len(warnings.records) == 1


async def test_frozen_service_costs_only_its_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_storage, "READ_TIMEOUT", 0.1)
    served = Served()
    served.gate.clear()
    async with asyncio.timeout(60), storage_of(served) as storage:
        storage.set("k", 1)
        await storage.flush(0.1)
        assert storage.to_dict() == {"k": 1}


async def test_rejected_value_stays_local_and_blocks_nothing(warnings: pytest.LogCaptureFixture) -> None:
    served = Served()
    served.error = ResourceExhausted("the scope is full")
    async with storage_of(served) as storage, asyncio.timeout(60):
        storage.set("k", 1)
        await storage.flush()
        served.error = None
        await storage.refresh()
        assert (storage.get("k"), served.values.get("k")) == (1, None)
        storage.set("large", "x" * 1024 * 1024)
        await storage.flush()
        assert "large" not in served.values.to_dict()
    assert len(warnings.records) == 1


async def test_tools_may_write_from_threads() -> None:
    served = Served()
    async with storage_of(served) as storage:

        def count() -> None:
            for _ in range(100):
                storage.compute("count", lambda value: value + 1, 0)

        threads = [threading.Thread(target=count) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            await asyncio.to_thread(thread.join)
        await storage.flush()
        assert storage.get("count") == served.values.get("count") == 400


async def test_write_after_the_task_stays_local() -> None:
    served = Served()
    async with storage_of(served) as storage:
        pass
    storage.set("k", 1)
    assert (storage.get("k"), served.values.get("k")) == (1, None)


async def test_after_a_failed_read_tasks_skip_reads_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    served = Served()
    connection = shared_storage.Connection(cast(WorkingMemoryClient, served))
    served.error = Unavailable("down")
    first = SharedStorage(cast(WorkingMemoryClient, served), "t1", connection)
    await first.refresh()
    first.set("k", 1)
    await asyncio.wait_for(first.flush(60.0), 60)
    await first.close()
    served.error = None
    served.values.set("seen", True)
    second = SharedStorage(cast(WorkingMemoryClient, served), "t2", connection)
    await second.refresh()
    assert second.to_dict() == {}, "it did not read"
    connection.down_until = 0.0
    await second.refresh()
    assert second.to_dict() == {"seen": True}
    await second.close()
