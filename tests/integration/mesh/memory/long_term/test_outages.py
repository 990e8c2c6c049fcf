"""A store that is frozen, damaged, overloaded, or not installed."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import apsw
import pytest

from archon.errors import DataLoss, FailedPrecondition, InvalidArgument, ResourceExhausted, Unavailable
from archon.failure_kinds import FailureClass
from archon_mesh.memory.long_term import LongTermMemory, Outbox, SqliteLongTermStore, guard, upkeep
from archon_mesh.memory.long_term import outbox as outbox_module
from archon_mesh.memory.long_term.sqlite import database
from archon_mesh.memory.long_term.weaviate import WeaviateLongTermStore
from tests.fixtures.long_term_entries import entry
from tests.fixtures.waiting import Eventually
from tests.fixtures.weaviate import running_weaviate


@pytest.mark.search
@pytest.mark.liveness
async def test_a_frozen_store_costs_a_caller_once_and_loses_nothing(tmp_path: Path, eventually: Eventually) -> None:
    loop = asyncio.get_running_loop()
    store = SqliteLongTermStore(tmp_path / "long_term.db")
    async with LongTermMemory(store, outbox=Outbox(tmp_path / "outbox.db")) as memory:
        await memory.store("before")
        lock = apsw.Connection(str(tmp_path / "long_term.db"))
        lock.execute("BEGIN IMMEDIATE")
        began = loop.time()
        ids = [await memory.store(f"meanwhile {number}") for number in range(20)]
        assert loop.time() - began < 25, "one call waits for 1.5 s, the others for nothing; 20 waits are 30 s"
        with pytest.raises(Unavailable) as refused:
            await memory.query("before")
        assert (refused.value.kind, refused.value.failure_class) == ("memory.retrieval", FailureClass.MEMORY)
        lock.execute("ROLLBACK")
        lock.close()

        async def stored() -> bool:
            try:
                stats = await memory.stats()
            except Unavailable:
                return False
            return (stats.active, stats.waiting) == (21, 0)

        await eventually(stored, within=60)
        assert {each.id for each in await memory.recent(100)} >= set(ids)


@pytest.mark.search
@pytest.mark.liveness
async def test_a_frozen_weaviate_costs_a_caller_once_and_loses_nothing(tmp_path: Path, eventually: Eventually) -> None:
    loop = asyncio.get_running_loop()
    with running_weaviate() as server:
        store = WeaviateLongTermStore(server.url)
        async with LongTermMemory(store, outbox=Outbox(tmp_path / "outbox.db")) as memory:
            first = await memory.store("before")
            os.kill(server.pid, signal.SIGSTOP)
            try:
                began = loop.time()
                ids = [await memory.store(f"meanwhile {number}") for number in range(20)]
                with pytest.raises(Unavailable):
                    await memory.query("before")
                assert loop.time() - began < 25, "one call waits for 1.5 s, the others for nothing; 20 waits are 30 s"
            finally:
                os.kill(server.pid, signal.SIGCONT)

            async def stored() -> bool:
                try:
                    stats = await memory.stats()
                except Unavailable:
                    return False
                # While an entry is embedded, a query may miss it.
                return (stats.active, stats.pending, stats.waiting) == (21, 0, 0)

            await eventually(stored, within=90)
            assert {each.id for each in await memory.recent(100)} == {first, *ids}


async def test_a_deleted_entry_does_not_come_back_from_the_outbox(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path / "outbox.db")
    async with LongTermMemory(SqliteLongTermStore(tmp_path / "long_term.db"), outbox=outbox) as memory:
        await memory.upkeep.close()
        kept, gone = entry("to be kept", user="ana"), entry("to be deleted", user="ana")
        forgotten = entry("to be forgotten", user="ben")
        await outbox.put(memory.tenant, [kept, gone, forgotten])
        await outbox.put(memory.tenant, [kept])
        assert await memory.delete(gone.id) is True
        assert await memory.forget(user="ben") == 1
        assert await memory.upkeep.drain() == 1
        assert [each.content for each in await memory.recent()] == ["to be kept"]
        assert await outbox.count() == 0


async def test_an_entry_that_the_store_refuses_holds_up_no_other(tmp_path: Path) -> None:
    class Refusing(SqliteLongTermStore):
        async def insert(self, tenant: str, entries: Any, vectors: Any) -> int:
            if any(each.content == "refused" for each in entries):
                raise InvalidArgument("not this one")
            return await super().insert(tenant, entries, vectors)

    outbox = Outbox(tmp_path / "outbox.db")
    async with LongTermMemory(Refusing(tmp_path / "long_term.db"), outbox=outbox) as memory:
        await memory.upkeep.close()
        await outbox.put(memory.tenant, [entry("first"), entry("refused"), entry("last")])
        await outbox.put("other", [entry("of another tenant")])
        assert await memory.upkeep.drain() == 3
        assert {each.content for each in await memory.recent()} == {"first", "last"}
        assert await outbox.count() == 0


async def test_a_damaged_entry_in_the_outbox_holds_up_no_other(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path / "outbox.db")
    async with LongTermMemory(SqliteLongTermStore(tmp_path / "long_term.db"), outbox=outbox) as memory:
        await memory.upkeep.close()
        broken = entry("broken", user="ana")
        await outbox.put(memory.tenant, [broken])
        other = apsw.Connection(str(tmp_path / "outbox.db"))
        other.execute("UPDATE waiting SET entry = replace(entry, 'broken', 'changed') WHERE id = ?", (broken.id,))
        other.close()
        await outbox.put(memory.tenant, [entry("sound", user="ana")])
        assert await memory.upkeep.drain() == 1
        assert [each.content for each in await memory.recent()] == ["sound"]
        assert await outbox.count() == 0
        assert await memory.forget(user="ana") == 2, "what was set aside is forgotten, too"


async def test_a_store_that_cannot_be_opened_is_opened_later(
    tmp_path: Path, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "FIRST_PAUSE", 0.2)
    monkeypatch.setattr(upkeep, "INTERVAL", 0.1)
    (tmp_path / "store").write_text("a file where the folder of the store should be")
    store = SqliteLongTermStore(tmp_path / "store" / "long_term.db")
    async with LongTermMemory(store, outbox=Outbox(tmp_path / "outbox.db")) as memory:
        waiting = await memory.store("waits")
        with pytest.raises(Unavailable):
            await memory.stats()
        (tmp_path / "store").unlink()

        async def stored() -> bool:
            try:
                return (await memory.stats()).active == 1
            except Unavailable:
                return False

        await eventually(stored, within=60)
        assert [(each.id, each.content) for each in await memory.recent()] == [(waiting, "waits")]


async def test_a_malformed_id_is_unknown(tmp_path: Path) -> None:
    # Nothing listens on these ports: such ids do not reach the store.
    memory = LongTermMemory(WeaviateLongTermStore("weaviate://127.0.0.1:9?grpc_port=10"))
    for wrong in ("", "x", "1", "00000000000000000000000000000000"):
        assert await memory.get(wrong) is None
        assert await memory.delete(wrong) is False
        assert await memory.feedback(wrong, True) is False
    with pytest.raises(InvalidArgument):
        await memory.page("x")


async def test_a_deletion_waits_shortly_for_moving_entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox_module, "LOCK_TIMEOUT", 0.01)
    outbox = Outbox(tmp_path / "outbox.db")
    async with LongTermMemory(SqliteLongTermStore(tmp_path / "long_term.db"), outbox=outbox, timeout=30) as memory:
        entry_id = await memory.store("text", {"user": "ana"})
        async with outbox.lock:
            with pytest.raises(Unavailable):
                await memory.delete(entry_id)
            with pytest.raises(Unavailable):
                await memory.forget(user="ana")
        assert await memory.delete(entry_id) is True


async def test_what_waits_survives_a_restart(tmp_path: Path) -> None:
    first = Outbox(tmp_path / "outbox.db")
    await first.open()
    await first.put("default", [entry("waits")])
    await first.close()
    memory = LongTermMemory(SqliteLongTermStore(tmp_path / "db"), outbox=Outbox(tmp_path / "outbox.db"))
    async with memory:
        await memory.upkeep.drain()
        assert [each.content for each in await memory.recent()] == ["waits"]


async def test_the_outbox_is_bounded_in_bytes(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path / "outbox.db", max_bytes=1_000)
    await outbox.open()
    with pytest.raises(ResourceExhausted, match="1,000 bytes") as refused:
        await outbox.put("t", [entry("x" * 1_000)])
    assert refused.value.kind == "memory.growth"
    await outbox.close()


async def test_operations_in_flight_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "MAX_WAITING", 8)
    async with SqliteLongTermStore(tmp_path / "long_term.db") as store:
        outcomes = await asyncio.gather(*(store.recent("t", 1) for _ in range(30)), return_exceptions=True)
        refused = [outcome for outcome in outcomes if isinstance(outcome, ResourceExhausted)]
        assert len(refused) == 22
        assert await store.recent("t", 1) == []


async def test_a_file_that_is_no_database_is_data_loss(tmp_path: Path) -> None:
    (tmp_path / "long_term.db").write_bytes(b"not a database, but long enough to be read as one" * 100)
    with pytest.raises(DataLoss):
        await SqliteLongTermStore(tmp_path / "long_term.db").open()


async def test_a_file_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    async with SqliteLongTermStore(tmp_path / "long_term.db"):
        pass
    connection = apsw.Connection(str(tmp_path / "long_term.db"))
    connection.execute("UPDATE meta SET value = '99'")
    connection.close()
    with pytest.raises(FailedPrecondition, match="99"):
        await SqliteLongTermStore(tmp_path / "long_term.db").open()


@pytest.mark.parametrize("package", ["apsw", "sqlite_vec"])
async def test_a_missing_package_names_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(FailedPrecondition, match=r"archon-mesh\[long-term\]"):
        await SqliteLongTermStore(tmp_path / "long_term.db").open()


async def test_a_missing_weaviate_client_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "weaviate", None)
    with pytest.raises(FailedPrecondition, match=r"archon-mesh\[weaviate\]"):
        await WeaviateLongTermStore("weaviate://127.0.0.1:9").open()


async def test_the_event_loop_runs_while_the_store_works(tmp_path: Path) -> None:
    async with SqliteLongTermStore(tmp_path / "long_term.db") as store:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0)

        ticker = asyncio.create_task(tick())
        await store.insert("t", [entry(f"entry number {number}") for number in range(1_000)], [None] * 1_000)
        ticker.cancel()
        assert ticks > 10
