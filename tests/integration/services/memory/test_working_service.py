"""Working memory as its clients see it, over gRPC and a process of its own."""

from __future__ import annotations

import asyncio
import signal
import time
import uuid
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import pytest

from archon.api.memory.v1 import working_memory_service_pb2 as pb
from archon.api.memory.v1 import working_memory_service_pb2_grpc
from archon.channel import connect
from archon.errors import Aborted, ArchonError, InvalidArgument, MalformedMessage, ResourceExhausted, Unavailable
from archon.memory import WorkingMemoryClient

if TYPE_CHECKING:
    from tests.fixtures.memory_mesh import Mesh
    from tests.fixtures.waiting import Eventually


def of(mesh: Mesh, scope: str = "") -> WorkingMemoryClient:
    return WorkingMemoryClient(mesh.memory.address, scope or f"run-{uuid.uuid4().hex}")


@pytest.fixture
async def working(mesh: Mesh) -> AsyncIterator[WorkingMemoryClient]:
    """Of a new scope."""
    async with of(mesh) as client:
        yield client


@pytest.fixture
async def stub(mesh: Mesh) -> AsyncIterator[Any]:
    channel = connect(mesh.memory.address)
    yield working_memory_service_pb2_grpc.WorkingMemoryServiceStub(channel)
    await channel.close()


async def test_values_are_got_set_updated_and_cleared_and_their_versions_go_on(working: WorkingMemoryClient) -> None:
    assert await working.get("k") is None
    assert (await working.get("k", "none"), await working.version("k")) == ("none", 0)
    assert await working.set("k", None) == 1
    assert await working.get("k", "none") is None
    await working.update({"k": {"deep": [1, 2.5, True, "naïve 𝄞\x00"]}, "other": ""})
    assert await working.to_dict() == {"k": {"deep": [1, 2.5, True, "naïve 𝄞\x00"]}, "other": ""}
    assert await working.version("k") == 2
    assert await working.delete("other")
    assert not await working.delete("other")
    await working.clear()
    assert await working.to_dict() == {}
    assert await working.version("k") == 0
    assert await working.set("k", 1) == 3


async def test_a_value_tells_when_it_was_written(working: WorkingMemoryClient) -> None:
    before = time.time() - 1
    await working.set("k", "v")
    found = await working.get_value("k")
    assert found is not None and (found.key, found.value, found.version) == ("k", "v", 1)
    assert before < found.timestamp < time.time() + 1
    assert await working.list_values() == [found]


async def test_where_another_version_stands_it_is_aborted_with_a_reason(working: WorkingMemoryClient) -> None:
    assert await working.set("k", 1, expected_version=0) == 1
    with pytest.raises(Aborted) as refused:
        await working.set("k", 2, expected_version=0)
    assert (refused.value.reason, refused.value.metadata["version"]) == ("CONFLICT", "1")
    with pytest.raises(Aborted) as refused:
        await working.delete("k", expected_version=7)
    assert refused.value.reason == "CONFLICT"
    assert not await working.delete("nothing", expected_version=7)
    assert await working.get("k") == 1


async def test_concurrent_writers_that_expect_a_version_lose_no_update(mesh: Mesh) -> None:
    scope = f"run-{uuid.uuid4().hex}"
    writers = [of(mesh, scope) for _ in range(4)]

    async def count(writer: WorkingMemoryClient) -> int:
        conflicts = 0
        for _ in range(20):
            while True:
                stands = await writer.get_value("count")
                try:
                    await writer.set("count", stands.value + 1 if stands else 1, stands.version if stands else 0)
                    break
                except Aborted:
                    conflicts += 1
        return conflicts

    try:
        async with asyncio.timeout(30):
            conflicts = sum(await asyncio.gather(*map(count, writers)))
        assert conflicts, "nobody was ever in another's way"
        assert (await writers[0].get("count"), await writers[0].version("count")) == (80, 80)
    finally:
        for writer in writers:
            await writer.close()


async def test_all_values_are_read_whatever_pages_it_takes(working: WorkingMemoryClient) -> None:
    large = "x" * 1_000_000
    given = {f"large {number}": large for number in range(6)} | {"a": 1, "z": [2]}
    await working.update(given)
    assert await working.to_dict() == given
    assert [one.key for one in await working.list_values("large")] == [f"large {number}" for number in range(6)]
    assert await working.list_values("none") == []


async def test_a_page_token_is_bound_to_its_filter(working: WorkingMemoryClient, stub: Any) -> None:
    scope = f"run-{uuid.uuid4().hex}"
    for key in ("a1", "a2", "b"):
        await stub.SetValue(pb.SetValueRequest(scope=scope, key=key, value_json="1"), timeout=5)
    first = await stub.ListValues(pb.ListValuesRequest(scope=scope, page_size=1, prefix="a"), timeout=5)
    assert [one.key for one in first.values] == ["a1"]
    request = pb.ListValuesRequest(scope=scope, page_size=5, prefix="a", page_token=first.next_page_token)
    second = await stub.ListValues(request, timeout=5)
    assert ([one.key for one in second.values], second.next_page_token) == (["a2"], "")
    for change in ({"prefix": "b"}, {"scope": "another"}, {"page_token": "nonsense"}, {"page_token": "bnVsbA=="}):
        wrong = pb.ListValuesRequest()
        wrong.CopyFrom(request)
        for name, value in change.items():
            setattr(wrong, name, value)
        with pytest.raises(InvalidArgument) as refused:
            await stub.ListValues(wrong, timeout=5)
        assert refused.value.reason == "INVALID_PAGE_TOKEN"
    for size in (-1, 1_001):
        with pytest.raises(InvalidArgument):
            await stub.ListValues(pb.ListValuesRequest(scope=scope, page_size=size), timeout=5)


@pytest.mark.parametrize(
    "wrong", ["", "x", "{", "1 2", "NaN", "[Infinity]", "'a'", '"\n"', "[" * 100_000, "1" * 10_000], ids=lambda x: x[:5]
)
async def test_what_is_no_json_value_is_refused(stub: Any, wrong: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        await stub.SetValue(pb.SetValueRequest(scope="s", key="k", value_json=wrong), timeout=5)
    assert [one.field for one in refused.value.field_violations] == ["value_json"]


async def test_every_wrong_field_of_a_write_is_named(stub: Any) -> None:
    for call, request in (
        (stub.GetValue, pb.GetValueRequest(scope="x" * 257, key="x" * 257)),
        (stub.SetValue, pb.SetValueRequest(value_json="{", expected_version=-1)),
        (stub.DeleteValue, pb.DeleteValueRequest(scope="\0", key="\0", expected_version=-1)),
        (stub.ListValues, pb.ListValuesRequest(prefix="x" * 257)),
    ):
        with pytest.raises(InvalidArgument) as refused:
            await call(request, timeout=5)
        named = {field.name for field in request.DESCRIPTOR.fields} & {
            "scope", "key", "expected_version", "prefix", "value_json"
        }  # fmt: skip
        assert {one.field for one in refused.value.field_violations} == named


async def test_a_value_above_a_mebibyte_is_refused_and_one_of_just_that_travels(
    working: WorkingMemoryClient, stub: Any
) -> None:
    most = "é" * (512 * 1024 - 1)
    assert await working.set("k" * 256, most) == 1
    assert await working.get("k" * 256) == most
    with pytest.raises(ResourceExhausted) as refused:
        await working.set("k", most + "x")
    assert refused.value.reason == "MESSAGE_TOO_LARGE"
    with pytest.raises(ResourceExhausted) as refused:
        await stub.SetValue(pb.SetValueRequest(scope="s", key="k", value_json=f'"{most}x"'), timeout=5)
    assert refused.value.reason == "MESSAGE_TOO_LARGE"
    assert refused.value.field_violations[0].field == "value_json"


@pytest.mark.parametrize(
    "value", [pytest.param(object(), id="object"), {1: 2}, (1, 2), float("nan"), b"x", "\ud800", {"k": {1}}], ids=repr
)
async def test_what_would_not_come_back_as_it_is_never_leaves(working: WorkingMemoryClient, value: Any) -> None:
    with pytest.raises(InvalidArgument):
        await working.set("k", value)
    with pytest.raises(InvalidArgument):
        await working.set("\ud800", 1)
    with pytest.raises(InvalidArgument):
        await working.set("k", 1, expected_version=-1)
    assert await working.to_dict() == {}


async def test_bytes_that_are_no_message_hurt_nobody_else(mesh: Mesh, working: WorkingMemoryClient) -> None:
    channel = connect(mesh.memory.address)
    write: Any = channel.unary_unary("/archon.api.memory.v1.WorkingMemoryService/SetValue")
    try:
        with pytest.raises(MalformedMessage):
            await write(b"\x0a\x02\xff\xfe", timeout=5)
    finally:
        await channel.close()
    assert await working.set("k", 1) == 1


async def test_kill_9_loses_no_value_that_was_acknowledged(fresh_mesh: Mesh) -> None:
    acknowledged: dict[str, int] = {}

    async def write(client: WorkingMemoryClient, key: str) -> None:
        while True:
            try:
                number = acknowledged.get(key, 0) + 1
                acknowledged[key] = await client.set(key, number, number - 1, timeout=2.0)
            except ArchonError:
                return

    async with of(fresh_mesh, "run") as client:
        await client.set("deleted", 1)
        await client.delete("deleted")
        writing = [asyncio.create_task(write(client, key)) for key in "abcd"]
        async with asyncio.timeout(15):
            while sum(acknowledged.values()) < 100:  # noqa: ASYNC110 - it is the service that is waited for
                await asyncio.sleep(0.01)
        await fresh_mesh.memory.kill()
        await asyncio.wait(writing, timeout=10)
        await fresh_mesh.memory.start()
        kept = {one.key: one for one in await client.list_values()}
        assert await client.set("deleted", 1) == 2
    for key, version in acknowledged.items():
        assert kept[key].version in (version, version + 1)  # one write may have been stored without an answer
        assert kept[key].value == kept[key].version


async def test_a_service_that_is_down_or_frozen_is_told_in_time_and_served_again(
    fresh_mesh: Mesh, eventually: Eventually
) -> None:
    async with of(fresh_mesh, "run") as client:
        await client.set("k", 1)
        fresh_mesh.memory.send(signal.SIGSTOP)
        try:
            began = time.monotonic()
            for call in (client.get("k", timeout=0.5), client.set("k", 2, timeout=0.5)):
                with pytest.raises((TimeoutError, Unavailable)):
                    await call
            assert time.monotonic() - began < 2.0
        finally:
            fresh_mesh.memory.send(signal.SIGCONT)
        assert await client.get("k") in (1, 2)
        await fresh_mesh.memory.kill()
        began = time.monotonic()
        with pytest.raises(Unavailable):
            await client.set("k", 3, 1)
        with pytest.raises(Unavailable):
            await client.set("k", 3, timeout=1.0)
        assert time.monotonic() - began < 4.0
        await fresh_mesh.memory.start()

        async def served() -> bool:
            try:
                return await client.set("k", 4) > 1
            except Unavailable:
                return False

        await eventually(served)
        assert await client.get("k") == 4
