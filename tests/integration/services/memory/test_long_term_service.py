"""Long-term memory over gRPC: the methods of the local one, durable, typed errors, and an outbox while Weaviate is down."""

from __future__ import annotations

import asyncio
import dataclasses
import sys
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from archon.api.memory.v1 import long_term_memory_service_pb2 as pb
from archon.api.memory.v1 import long_term_memory_service_pb2_grpc
from archon.channel import connect
from archon.errors import (
    AlreadyExists,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    ResourceExhausted,
    Unavailable,
    Unimplemented,
)
from archon.memory import LongTermMemoryClient
from archon.memory.long_term.convert import entry_to_proto
from archon.memory.long_term.entry import MAX_CONTENT_BYTES, LongTermStats, Source
from archon_mesh.memory.long_term import LongTermMemory
from archon_mesh.memory.long_term.embedders.offline import embed_text
from archon_services.memory.long_term import open_long_term_memory
from archon_services.memory.settings import MemorySettings
from tests.fixtures.long_term_entries import entry
from tests.fixtures.openai_server import Answer, OpenAIServer
from tests.fixtures.services import ServiceProcess
from tests.fixtures.waiting import Eventually
from tests.fixtures.weaviate import running_weaviate

NO_REGISTRY = ("--registry", "127.0.0.1:9")


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[ServiceProcess]:
    """A memory service with its files in a new folder."""
    process = ServiceProcess("archon_services.memory", tmp_path, *NO_REGISTRY, "--db", str(tmp_path / "memory.db"))
    await process.start()
    try:
        yield process
    finally:
        await process.close()


@pytest.fixture
async def memory(service: ServiceProcess) -> AsyncIterator[LongTermMemoryClient]:
    async with LongTermMemoryClient(service.address) as client:
        yield client


async def test_what_is_stored_is_found_after_a_restart(service: ServiceProcess) -> None:
    async with LongTermMemoryClient(service.address, metadata={"user": "ana"}) as memory:
        entry_id = await memory.store("Ana is vegetarian", {"role": "user"}, 0.75)
        await service.kill()
        await service.start()
        (found,) = await memory.query("vegetarian dishes", filters={"user": "ana", "role": "user"})
        assert (found.entry.id, found.content, found.entry.importance) == (entry_id, "Ana is vegetarian", 0.75)
        assert found.entry.is_intact
        assert 0.3 <= found.score <= 1
        assert await memory.query("vegetarian", threshold=0.0, filters={"user": "ben"}) == []


async def test_the_client_has_the_methods_of_the_local_memory() -> None:
    local = {name for name in vars(LongTermMemory) if not name.startswith("_")}
    only_local = {"of_tenant", "store_batch", "search", "page", "restore", "tidy"}
    assert local - only_local <= set(vars(LongTermMemoryClient))


async def test_a_repeated_request_stores_once(memory: LongTermMemoryClient) -> None:
    ids = [await memory.store("tea with milk", request_id="r1") for _ in range(3)]
    assert len(set(ids)) == 1
    assert (await memory.stats()).active == 1
    with pytest.raises(AlreadyExists) as reused:
        await memory.store("coffee", request_id="r1")
    assert reused.value.reason == "REQUEST_ID_REUSED"


async def test_an_entry_is_rated_changed_and_deleted(memory: LongTermMemoryClient) -> None:
    entry_id = await memory.store("red apples")
    assert await memory.feedback(entry_id, True)
    assert await memory.feedback(entry_id, False)
    assert await memory.set_importance(entry_id, 0.25)
    assert await memory.archive(entry_id)
    read = await memory.get(entry_id)
    assert read is not None
    assert (read.useful, read.not_useful, read.importance, read.archived) == (1, 1, 0.25, True)
    assert [found.entry.id for found in await memory.query("apples", with_archived=True)] == [entry_id]
    assert await memory.query("apples") == []
    assert await memory.archive(entry_id, False)
    assert await memory.delete(entry_id) is True
    assert await memory.delete(entry_id) is False
    assert await memory.get(entry_id) is None
    unknown = str(uuid.uuid4())
    assert not any(
        [await memory.feedback(unknown, True), await memory.archive(unknown), await memory.set_importance(unknown, 1)]
    )


def files_with(word: bytes, folder: Path) -> list[str]:
    """Returns the names of the files that contain a word, whatever its case."""
    files = list(folder.glob("long_term*"))
    assert files
    return [file.name for file in files if word in file.read_bytes().lower()]


async def test_forget_deletes_by_user_and_session(memory: LongTermMemoryClient, tmp_path: Path) -> None:
    await memory.store("Xylophon of ana", {"user": "ana", "session": "s1"})
    await memory.store("of ana, too", {"user": "ana", "session": "s2"})
    await memory.store("of ben", {"user": "ben", "session": "s1"})
    assert await memory.forget(user="ana", session="s1") == 1
    assert await memory.forget(user="ana") == 1
    assert [each.content for each in await memory.recent()] == ["of ben"]
    assert not files_with(b"xylophon", tmp_path)
    with pytest.raises(InvalidArgument):
        await memory.forget()


async def test_an_export_of_the_service_is_restored(memory: LongTermMemoryClient, tmp_path: Path) -> None:
    for number in range(40):
        await memory.store(f"fact {number}", {"user": "ana"})
    file = tmp_path / "export.jsonl"
    assert await memory.export_to(file) == 40
    assert await memory.import_from(file) == 0
    assert await memory.forget(user="ana") == 40
    assert await memory.import_from(file) == 40
    assert (await memory.stats()).active == 40


async def test_large_entries_are_exported_in_several_pages(memory: LongTermMemoryClient, tmp_path: Path) -> None:
    text = "word " * (MAX_CONTENT_BYTES // 5)
    for number in range(80):  # more than one message holds
        await memory.store(f"{number} {text}"[:MAX_CONTENT_BYTES])
    assert await memory.export_to(tmp_path / "export.jsonl") == 80
    assert 10 < len(await memory.recent(80)) < 80, "a response ends early"


async def test_a_summary_and_a_context_come_from_the_service(memory: LongTermMemoryClient) -> None:
    await memory.store("Ana is vegetarian", {"role": "user"})
    assert "] Ana is vegetarian" in await memory.summarize_recent()
    context = await memory.retrieve_context("Which dishes are vegetarian?", 400, history=["hello"])
    assert [each.content for each in context.memories] == ["Ana is vegetarian"]
    assert context.text.endswith("hello")


async def test_invalid_requests_are_refused(service: ServiceProcess) -> None:
    channel = connect(service.address)
    stub: Any = long_term_memory_service_pb2_grpc.LongTermMemoryServiceStub(channel)
    changed = entry_to_proto(dataclasses.replace(entry("text"), content="changed"))
    try:
        for call, request in (
            (stub.StoreEntry, pb.StoreEntryRequest()),
            (stub.StoreEntry, pb.StoreEntryRequest(content="x", importance=2)),
            (stub.StoreEntry, pb.StoreEntryRequest(content="x", request_id="r" * 5_000)),
            (stub.StoreEntry, pb.StoreEntryRequest(content="x", metadata={"a=b": "c"})),
            (stub.SearchEntries, pb.SearchEntriesRequest(query="x", limit=101)),
            (stub.SearchEntries, pb.SearchEntriesRequest(query="x", limit=-1)),
            (stub.SearchEntries, pb.SearchEntriesRequest(query="x", threshold=1.5)),
            (stub.SearchEntries, pb.SearchEntriesRequest(query=" ")),
            (stub.SearchEntries, pb.SearchEntriesRequest(query="x" * 20_000)),
            (stub.ListEntries, pb.ListEntriesRequest(page_token="made up")),
            (stub.ListEntries, pb.ListEntriesRequest(page_size=1_001)),
            (stub.ListRecentEntries, pb.ListRecentEntriesRequest(limit=-1)),
            (stub.GetEntry, pb.GetEntryRequest()),
            (stub.UpdateEntry, pb.UpdateEntryRequest(entry_id="x")),
            (stub.UpdateEntry, pb.UpdateEntryRequest(entry_id="x", importance=-1)),
            (stub.DeleteEntry, pb.DeleteEntryRequest()),
            (stub.ForgetEntries, pb.ForgetEntriesRequest()),
            (stub.RestoreEntries, pb.RestoreEntriesRequest(entries=[changed])),
        ):
            with pytest.raises(InvalidArgument):
                await call(request, timeout=10)
        with pytest.raises(ResourceExhausted) as large:
            await stub.StoreEntry(pb.StoreEntryRequest(content="x" * (MAX_CONTENT_BYTES + 1)), timeout=10)
        assert large.value.reason == "MESSAGE_TOO_LARGE"
        for unknown in (
            stub.GetEntry(pb.GetEntryRequest(entry_id="x"), timeout=10),
            stub.RateEntry(pb.RateEntryRequest(entry_id="x"), timeout=10),
        ):
            with pytest.raises(NotFound):
                await unknown
    finally:
        await channel.close()


@pytest.mark.parametrize("setting", ["off", ""])
async def test_a_service_without_a_store_says_so(tmp_path: Path, setting: str) -> None:
    arguments = ("--long-term", setting) if setting else ()
    process = ServiceProcess("archon_services.memory", tmp_path, *NO_REGISTRY, "--db", ":memory:", *arguments)
    await process.start()
    try:
        async with LongTermMemoryClient(process.address) as memory:
            if setting == "off":
                with pytest.raises(Unimplemented) as refused:
                    await memory.stats()
                assert refused.value.reason == "NOT_SERVED"
            else:
                assert await memory.stats() == LongTermStats()
    finally:
        await process.close()


async def test_without_its_packages_it_is_off_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    settings = MemorySettings(db=str(tmp_path / "memory.db"))
    with monkeypatch.context() as missing:
        missing.setitem(sys.modules, "apsw", None)
        async with open_long_term_memory(settings) as memory:
            assert memory is None
    assert "archon-mesh[long-term]" in caplog.text
    async with open_long_term_memory(settings) as memory:
        assert memory is not None
    connection = apsw.Connection(str(tmp_path / "long_term.db"))
    connection.execute("UPDATE meta SET value = '99'")
    connection.close()
    with pytest.raises(FailedPrecondition, match="99"):
        async with open_long_term_memory(settings):
            pass


async def test_it_is_off_by_default_beside_postgresql() -> None:
    async with open_long_term_memory(MemorySettings(db="postgresql://nowhere/db")) as memory:
        assert memory is None


async def test_another_embedder_embeds_all_entries_again(tmp_path: Path, eventually: Eventually) -> None:
    def answer(body: dict[str, Any]) -> Answer:
        data = [
            {"object": "embedding", "index": index, "embedding": list(embed_text(text))}
            for index, text in enumerate(body["input"])
        ]
        return Answer({"object": "list", "model": "m", "data": data, "usage": {"prompt_tokens": 1, "total_tokens": 1}})

    arguments = (*NO_REGISTRY, "--db", str(tmp_path / "memory.db"))
    first = ServiceProcess("archon_services.memory", tmp_path, *arguments)
    await first.start()
    async with LongTermMemoryClient(first.address) as memory:
        for text in ("red apples", "green pears", "blue plums"):
            await memory.store(text)
    await first.close()
    async with OpenAIServer(answer=answer) as server:
        second = ServiceProcess(
            "archon_services.memory", tmp_path, *arguments, "--embedder", "openai/small", OPENAI_BASE_URL=server.url
        )
        await second.start()
        try:
            async with LongTermMemoryClient(second.address) as memory:

                async def embedded() -> bool:
                    return {each.embedder for each in await memory.recent()} == {"openai/small/centred-1"}

                await eventually(embedded, within=60)
                (found, *_) = await memory.query("Which apples are red?")
                assert (found.content, found.source) == ("red apples", Source.HYBRID)
        finally:
            await second.close()


@pytest.mark.parametrize("arguments", [("--long-term", "mysql://x"), ("--embedder", "magic")])
async def test_a_malformed_setting_ends_the_start(tmp_path: Path, arguments: tuple[str, str]) -> None:
    process = ServiceProcess("archon_services.memory", tmp_path, *NO_REGISTRY, "--db", ":memory:", *arguments)
    assert await process.start_or_exit() not in (0, None)
    assert "Traceback" not in process.log.read_text()


@pytest.mark.search
async def test_weaviate_down_stores_later_exactly_once(tmp_path: Path, eventually: Eventually) -> None:
    with running_weaviate(started=False) as weaviate:
        arguments = ("--db", str(tmp_path / "memory.db"), "--long-term", weaviate.url)
        process = ServiceProcess("archon_services.memory", tmp_path, *NO_REGISTRY, *arguments)
        await process.start()
        try:
            async with LongTermMemoryClient(process.address) as memory:
                ids = [await memory.store(f"fact number {number}", {"user": "ana"}) for number in range(5)]
                with pytest.raises(Unavailable):
                    await memory.query("fact")
                await process.kill()  # the outbox outlives the process
                await process.start()
                await asyncio.to_thread(weaviate.start)

                async def stored() -> bool:
                    try:
                        stats = await memory.stats()
                    except Unavailable:
                        return False
                    return (stats.active, stats.waiting) == (5, 0)

                await eventually(stored, within=90)

                async def found() -> bool:  # Weaviate shows what it has stored after a moment
                    return sorted(each.id for each in await memory.recent()) == sorted(ids)

                await eventually(found)
        finally:
            await process.close()
