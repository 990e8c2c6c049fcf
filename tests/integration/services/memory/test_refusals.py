"""Refused and repeated requests to the shared memory."""

from __future__ import annotations

import asyncio
import uuid
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import pytest

from archon.api.tool.v1 import tool_service_pb2, tool_service_pb2_grpc
from archon.channel import connect
from archon.errors import (
    Aborted,
    InvalidArgument,
    MalformedMessage,
    MessageTooLarge,
    RequestIdReused,
    ResourceExhausted,
    Unimplemented,
)
from archon.memory import MemoryGraphClient, MemoryItem, PublishItem
from tests.fixtures.memory_mesh import published

if TYPE_CHECKING:
    from tests.fixtures.memory_mesh import Mesh

MB = 1024 * 1024


def texts(items: list[MemoryItem]) -> list[tuple[str, str]]:
    return [(item.source_id, item.content) for item in items]


def event(role: str, seq: int, content: str = "x", *, epoch: int = 1, run_id: str = "run-1") -> PublishItem:
    return PublishItem(role=role, content=content, run_id=run_id, epoch=epoch, seq=seq)


async def test_repeated_request_id_gives_the_same_result_or_is_refused(
    client: MemoryGraphClient,
) -> None:
    request_id = uuid.uuid4().hex
    metadata = {f"key {number}": "v" for number in range(40)}
    assert await published(client, "a", "one", metadata=metadata, request_id=request_id) == 1
    assert await published(client, "a", "two") == 2
    assert await published(client, "a", "one", metadata=dict(reversed(metadata.items())), request_id=request_id) == 1
    with pytest.raises(RequestIdReused):
        await client.publish("a", "other", request_id=request_id)
    assert texts(await client.pull_for("b")) == [("a", "two")]


async def test_repeated_event_of_a_run_gets_its_first_version(client: MemoryGraphClient) -> None:
    for seq in (3, 5):
        await client.publish_items([event("a", seq, f"of {seq}")])
    results = await client.publish_items([event("a", 3, "of 3"), event("a", 5, "of 5"), event("a", 6), event("a", 6)])
    assert [(result.version, result.repeated_before) for result in results] == [
        (1, True),
        (2, True),
        (3, False),
        (3, True),
    ]


async def test_durability_12_stale_writer_is_refused_as_a_whole(
    client: MemoryGraphClient,
) -> None:
    await client.publish_items([event("a", 4, "new owner", epoch=2)])
    for stale in (event("a", 9, "late", epoch=1), event("a", 3, "late", epoch=2)):
        with pytest.raises(Aborted) as refused:
            await client.publish_items([event("b", 1), stale])
        assert refused.value.reason == "STALE_EPOCH"
    assert texts(await client.pull_for("c")) == [("a", "new owner")]


async def test_fence_belongs_to_one_scope_run_and_role(mesh: Mesh, client: MemoryGraphClient) -> None:
    await client.publish_items([event("a", 9, epoch=5)])
    await client.publish_items([event("b", 1)])
    await client.publish_items([event("a", 1, "another run", run_id="run-2")])
    async with mesh.client(f"other-{uuid.uuid4().hex}") as other:
        await other.publish_items([event("a", 1)])
    assert texts(await client.pull_for("b")) == [("a", "another run")]


async def test_text_above_4_mib_is_refused_below_it_not(client: MemoryGraphClient) -> None:
    with pytest.raises(MessageTooLarge) as refused:
        await client.publish("a", "é" * (2 * MB) + "x")
    assert refused.value.field_violations[0].field == "items[0].content"
    assert await published(client, "a", "é" * (2 * MB)) == 1
    with pytest.raises(MessageTooLarge):
        await client.publish_items([PublishItem(role="a", content="x" * MB)] * 5)
    assert len((await client.pull_for("b"))[0].content) == 2 * MB


async def test_response_above_the_clients_limit_names_the_reason(client: MemoryGraphClient) -> None:
    for number in range(17):
        await client.publish(f"big-{number}", "x" * 1024 * 1024)
    with pytest.raises(ResourceExhausted) as refused:
        await client.to_dict()
    assert refused.value.reason == "MESSAGE_TOO_LARGE"
    async with asyncio.timeout(60), aclosing(client.watch()) as changes:
        first = await anext(changes)
        items = list(first.items)
        assert first.snapshot
        while len(items) < 17:
            change = await anext(changes)
            assert not change.snapshot
            items += change.items
    assert [item.source_id for item in items] == [f"big-{number}" for number in range(17)]


async def test_merged_metadata_is_bounded(client: MemoryGraphClient) -> None:
    await client.publish("a", "x", {str(number): "" for number in range(64)})
    with pytest.raises(ResourceExhausted):
        await client.publish("a", "y", {"one more": ""})
    assert texts(await client.pull_for("b")) == [("a", "x")]


async def test_every_invalid_field_is_named(mesh: Mesh) -> None:
    invalid = PublishItem(role="No Role", content="x", metadata={"": ""}, epoch=1, ttl=-1)
    async with mesh.client("") as client:
        with pytest.raises(InvalidArgument) as refused:
            await client.publish_items([invalid, PublishItem(role="a", content="x", run_id="r")])
        assert [violation.field for violation in refused.value.field_violations] == [
            "scope",
            "items[0].role",
            "items[0].metadata",
            "items[0].ttl",
            "items[0].run_id",
        ]
        with pytest.raises(InvalidArgument):
            await client.pull_for("a")
        with pytest.raises(InvalidArgument):
            await client.clear_published_data()
        with pytest.raises(InvalidArgument):
            await anext(client.watch())
    async with mesh.client("s") as client:
        for items in ([], [PublishItem(role="a", content="x")] * 101, [PublishItem(role="a", run_id="r", epoch=1)]):
            with pytest.raises(InvalidArgument):
                await client.publish_items(items)


async def test_string_that_is_not_utf8_is_a_typed_error(mesh: Mesh, client: MemoryGraphClient) -> None:
    channel = connect(mesh.memory.address)
    publish: Any = channel.unary_unary("/archon.api.memory.v1.MemoryGraphService/PublishItems")
    try:
        with pytest.raises(MalformedMessage):
            await publish(b"\x0a\x02\xff\xfe", timeout=5)
    finally:
        await channel.close()
    assert await published(client, "a", "x") == 1


async def test_unimplemented_method_is_a_typed_error(mesh: Mesh) -> None:
    channel = connect(mesh.memory.address)
    tools: Any = tool_service_pb2_grpc.ToolServiceStub(channel)
    try:
        with pytest.raises(Unimplemented) as refused:
            await tools.ListTools(tool_service_pb2.ListToolsRequest(), timeout=5)
        assert refused.value.reason == "NOT_SERVED"
    finally:
        await channel.close()


async def test_text_that_cannot_be_encoded_is_refused_by_the_client(client: MemoryGraphClient) -> None:
    with pytest.raises(InvalidArgument):
        await client.publish("a", "\ud800")
    with pytest.raises(InvalidArgument):
        await client.pull_for("\ud800")
