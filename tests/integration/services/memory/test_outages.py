"""Processes are killed and restarted: no acknowledged publish is lost, and no pull changes."""

from __future__ import annotations

import asyncio
import signal
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from archon.errors import ArchonError
from archon.memory import MemoryGraphClient, PropagationPolicy, PublishItem
from archon.memory.client import CALL_TIMEOUT
from archon_services.memory import MemorySettings, memory_app
from archon_services.registry import RegistrySettings, registry_app
from tests.fixtures.memory_mesh import published

if TYPE_CHECKING:
    from tests.fixtures.memory_mesh import Mesh
    from tests.fixtures.waiting import Eventually


async def test_v11_restart_without_a_registry_changes_nothing(fresh_mesh: Mesh, eventually: Eventually) -> None:
    mesh = fresh_mesh
    async with mesh.client("session") as client:
        await mesh.pin(("a", "b"), policy=PropagationPolicy.TOOL_RESULTS)
        await mesh.pin(("b", "c"))
        await client.publish("a", "cleared")
        await client.publish("gone", "cleared")
        await client.clear_published_data()
        await client.publish("a", "stays", {"k": "v"}, policy=PropagationPolicy.TOOL_RESULTS)
        await client.publish_items([PublishItem(role="b", content="of a run", run_id="r", epoch=3, seq=4)])
        before = await client.to_dict(), await client.pull_for("b"), await client.pull_for_indirect("c")
        assert len(before[1]) == 1

        await mesh.registry.kill()
        assert (await client.to_dict(), await client.pull_for("b"), await client.pull_for_indirect("c")) == before

        assert await mesh.memory.stop() == 0
        await mesh.memory.start()
        assert (await client.to_dict(), await client.pull_for("b"), await client.pull_for_indirect("c")) == before
        assert await published(client, "gone", "x") == 2
        (repeated,) = await client.publish_items([PublishItem(role="b", content="-", run_id="r", epoch=3, seq=4)])
        assert (repeated.version, repeated.repeated_before) == (1, True)

        # The registry's store was in memory: it comes back empty, and is watched again.
        await mesh.registry.start()
        await mesh.pin(("a", "d"))

        async def edge_known() -> bool:
            return await client.get_edges_for_nodes("abcd") == [("a", "d")]

        await eventually(edge_known)


async def test_kill_9_loses_no_acknowledged_publish(fresh_mesh: Mesh, eventually: Eventually) -> None:
    mesh = fresh_mesh

    async def enough() -> bool:
        return sum(acknowledged.values()) >= 100

    acknowledged: dict[str, int] = {}

    async def publish(client: MemoryGraphClient, role: str) -> None:
        while True:
            try:
                number = acknowledged.get(role, 0) + 1
                acknowledged[role] = await published(client, role, f"number {number}", timeout=1.0)
            except ArchonError:
                return

    async with mesh.client("session") as client:
        publishing = [asyncio.create_task(publish(client, role)) for role in "abcd"]
        await eventually(enough, within=60)
        await mesh.memory.kill()
        await asyncio.wait(publishing, timeout=60)
        await mesh.memory.start()
        stored = {item["source_id"]: item for item in (await client.to_dict())["items"]}
    for role, version in acknowledged.items():
        # One publish of each may have been stored without an answer.
        assert stored[role]["version"] in (version, version + 1)
        assert stored[role]["content"] == f"number {stored[role]['version']}"


async def test_watch_continues_after_the_service_was_killed(fresh_mesh: Mesh) -> None:
    mesh = fresh_mesh
    async with mesh.client("session") as client, asyncio.timeout(60), aclosing(client.watch()) as changes:
        assert (await anext(changes)).items == ()
        await client.publish("a", "before")
        assert [item.content for item in (await anext(changes)).items] == ["before"]
        await mesh.memory.kill()
        await mesh.memory.start()
        again = await anext(changes)
        assert (again.snapshot, [item.content for item in again.items]) == (True, ["before"])
        await client.publish("a", "after")
        assert [item.content for item in (await anext(changes)).items] == ["after"]


async def test_store_has_one_service_and_a_watched_one_stops(fresh_mesh: Mesh) -> None:
    mesh = fresh_mesh
    second = mesh.another_memory(mesh.registry.address)
    try:
        assert await second.start_or_exit() == 1
    finally:
        await second.close()
    async with mesh.client("session") as client, aclosing(client.watch()) as changes:
        await anext(changes)
        assert await mesh.memory.stop() == 0


async def test_stopping_waits_for_no_watcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("archon_services.memory.app.STOP_GRACE", 600.0)
    async with asyncio.timeout(60), registry_app(RegistrySettings(etcd="memory")) as registry:
        settings = MemorySettings(db=str(tmp_path / "memory.db"), registry=registry)
        async with memory_app(settings) as address:
            client = MemoryGraphClient(address, "session", registry=registry)
            changes = client.watch()
            await anext(changes)
        await changes.aclose()
        await client.close()


async def test_call_to_a_frozen_service_ends_at_its_deadline(fresh_mesh: Mesh) -> None:
    async with fresh_mesh.client("session") as client:
        await client.publish("a", "x")
        fresh_mesh.memory.send(signal.SIGSTOP)
        try:
            async with asyncio.timeout(CALL_TIMEOUT):
                with pytest.raises(TimeoutError):
                    await client.publish("a", "y", timeout=0.5)
        finally:
            fresh_mesh.memory.send(signal.SIGCONT)
        assert await published(client, "a", "z") in (2, 3)
