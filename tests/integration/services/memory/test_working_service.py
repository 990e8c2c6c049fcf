"""Working memory as clients see it, over gRPC and a process."""

from __future__ import annotations

import asyncio
import signal
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import pytest

from archon.api.memory.v1 import working_memory_service_pb2 as pb
from archon.api.memory.v1 import working_memory_service_pb2_grpc
from archon.channel import connect
from archon.errors import Aborted, ArchonError, InvalidArgument, MalformedMessage, ResourceExhausted, Unavailable
from archon.memory import WorkingMemoryClient
from archon.memory.client import CALL_TIMEOUT
from tests.fixtures.waiting import until

if TYPE_CHECKING:
    from tests.fixtures.memory_mesh import Mesh
    from tests.fixtures.waiting import Eventually


def client_of(mesh: Mesh, scope: str = "") -> WorkingMemoryClient:
    return WorkingMemoryClient(mesh.memory.address, scope or f"run-{uuid.uuid4().hex}")


@pytest.fixture
async def working(mesh: Mesh) -> AsyncIterator[WorkingMemoryClient]:
    """A client of a new scope."""
    async with client_of(mesh) as client:
        yield client


@pytest.fixture
async def stub(mesh: Mesh) -> AsyncIterator[Any]:
    channel = connect(mesh.memory.address)
    yield working_memory_service_pb2_grpc.WorkingMemoryServiceStub(channel)
    await channel.close()


async def test_values_are_set_updated_cleared_and_versions_continue(working: WorkingMemoryClient) -> None:
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


async def test_value_carries_the_time_of_its_write(working: WorkingMemoryClient) -> None:
    before = time.time() - 1
    await working.set("k", "v")
    value = await working.get_value("k")
    assert value is not None and (value.key, value.value, value.version) == ("k", "v", 1)
    assert before < value.timestamp < time.time() + 1
    assert await working.list_values() == [value]


async def test_write_with_a_wrong_expected_version_is_aborted(working: WorkingMemoryClient) -> None:
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
    writers = [client_of(mesh, scope) for _ in range(4)]

    async def count(writer: WorkingMemoryClient) -> int:
        conflicts = 0
        for _ in range(20):
            while True:
                current = await writer.get_value("count")
                try:
                    await writer.set("count", current.value + 1 if current else 1, current.version if current else 0)
                    break
                except Aborted:
                    conflicts += 1
        return conflicts

    try:
        async with asyncio.timeout(30):
            conflicts = sum(await asyncio.gather(*map(count, writers)))
        assert conflicts, "the writers never conflicted"
        assert (await writers[0].get("count"), await writers[0].version("count")) == (80, 80)
    finally:
        for writer in writers:
            await writer.close()


async def test_all_values_are_read_over_many_pages(working: WorkingMemoryClient) -> None:
    large = "x" * 1_000_000
    values = {f"large {number}": large for number in range(6)} | {"a": 1, "z": [2]}
    await working.update(values)
    assert await working.to_dict() == values
    assert [value.key for value in await working.list_values("large")] == [f"large {number}" for number in range(6)]
    assert await working.list_values("none") == []


async def test_page_token_is_bound_to_its_filter(working: WorkingMemoryClient, stub: Any) -> None:
    scope = f"run-{uuid.uuid4().hex}"
    for key in ("a1", "a2", "b"):
        await stub.SetValue(pb.SetValueRequest(scope=scope, key=key, value_json="1"), timeout=5)
    first = await stub.ListValues(pb.ListValuesRequest(scope=scope, page_size=1, prefix="a"), timeout=5)
    assert [value.key for value in first.values] == ["a1"]
    request = pb.ListValuesRequest(scope=scope, page_size=5, prefix="a", page_token=first.next_page_token)
    second = await stub.ListValues(request, timeout=5)
    assert ([value.key for value in second.values], second.next_page_token) == (["a2"], "")
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
    "invalid",
    ["", "x", "{", "1 2", "NaN", "[Infinity]", "'a'", '"\n"', "[" * 100_000, "1" * 10_000],
    ids=lambda x: x[:5],
)
async def test_value_that_is_not_json_is_refused(stub: Any, invalid: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        await stub.SetValue(pb.SetValueRequest(scope="s", key="k", value_json=invalid), timeout=5)
    assert [violation.field for violation in refused.value.field_violations] == ["value_json"]


async def test_every_invalid_field_of_a_write_is_named(stub: Any) -> None:
    for call, request in (
        (stub.GetValue, pb.GetValueRequest(scope="x" * 257, key="x" * 257)),
        (stub.SetValue, pb.SetValueRequest(value_json="{", expected_version=-1)),
        (stub.DeleteValue, pb.DeleteValueRequest(scope="\0", key="\0", expected_version=-1)),
        (stub.ListValues, pb.ListValuesRequest(prefix="x" * 257)),
    ):
        with pytest.raises(InvalidArgument) as refused:
            await call(request, timeout=5)
        expected = {field.name for field in request.DESCRIPTOR.fields} & {
            "scope", "key", "expected_version", "prefix", "value_json"
        }  # fmt: skip
        assert {violation.field for violation in refused.value.field_violations} == expected


async def test_value_above_a_mebibyte_is_refused_one_of_that_size_not(working: WorkingMemoryClient, stub: Any) -> None:
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
async def test_value_that_would_not_round_trip_is_never_sent(working: WorkingMemoryClient, value: Any) -> None:
    with pytest.raises(InvalidArgument):
        await working.set("k", value)
    with pytest.raises(InvalidArgument):
        await working.set("\ud800", 1)
    with pytest.raises(InvalidArgument):
        await working.set("k", 1, expected_version=-1)
    assert await working.to_dict() == {}


async def test_malformed_request_affects_no_other(mesh: Mesh, working: WorkingMemoryClient) -> None:
    channel = connect(mesh.memory.address)
    write: Any = channel.unary_unary("/archon.api.memory.v1.WorkingMemoryService/SetValue")
    try:
        with pytest.raises(MalformedMessage):
            await write(b"\x0a\x02\xff\xfe", timeout=5)
    finally:
        await channel.close()
    assert await working.set("k", 1) == 1


async def test_kill_9_loses_no_acknowledged_value(fresh_mesh: Mesh) -> None:
    acknowledged: dict[str, int] = {}

    async def write(client: WorkingMemoryClient, key: str) -> None:
        while True:
            try:
                number = acknowledged.get(key, 0) + 1
                acknowledged[key] = await client.set(key, number, number - 1, timeout=2.0)
            except ArchonError:
                return

    async with client_of(fresh_mesh, "run") as client:
        await client.set("deleted", 1)
        await client.delete("deleted")
        writing = [asyncio.create_task(write(client, key)) for key in "abcd"]
        await until(lambda: sum(acknowledged.values()) >= 100, 60)
        await fresh_mesh.memory.kill()
        await asyncio.wait(writing, timeout=60)
        await fresh_mesh.memory.start()
        stored = {value.key: value for value in await client.list_values()}
        assert await client.set("deleted", 1) == 2
    for key, version in acknowledged.items():
        assert stored[key].version in (version, version + 1)  # one write may have been stored without an answer
        assert stored[key].value == stored[key].version


async def test_stopped_or_frozen_service_is_unavailable_and_recovers(fresh_mesh: Mesh, eventually: Eventually) -> None:
    async with client_of(fresh_mesh, "run") as client:
        await client.set("k", 1)
        fresh_mesh.memory.send(signal.SIGSTOP)
        try:
            async with asyncio.timeout(CALL_TIMEOUT):  # the limit of a call that has none of its own
                for call in (client.get("k", timeout=0.5), client.set("k", 2, timeout=0.5)):
                    with pytest.raises((TimeoutError, Unavailable)):
                        await call
        finally:
            fresh_mesh.memory.send(signal.SIGCONT)
        assert await client.get("k") in (1, 2)
        await fresh_mesh.memory.kill()
        async with asyncio.timeout(60):
            with pytest.raises(Unavailable):
                await client.set("k", 3, 1)
            with pytest.raises(Unavailable):
                await client.set("k", 3, timeout=1.0)
        await fresh_mesh.memory.start()

        async def served() -> bool:
            try:
                return await client.set("k", 4) > 1
            except Unavailable:
                return False

        await eventually(served)
        assert await client.get("k") == 4


async def test_a_watch_of_values_goes_on_after_a_restart(fresh_mesh: Mesh) -> None:
    """Changes while the service is down are seen, deletions too; what the reader has is not repeated."""
    async with client_of(fresh_mesh) as working, aclosing(working.watch("job.")) as changes:
        await working.update({"job.a": 1, "job.b": 1, "other": 1})
        assert {change.key for change in [await anext(changes), await anext(changes)]} == {"job.a", "job.b"}
        await fresh_mesh.memory.kill()
        await fresh_mesh.memory.start()
        await working.set("job.b", 2)
        await working.delete("job.a")
        seen = [await anext(changes), await anext(changes)]
        assert {change.key: change.value and change.value.value for change in seen} == {"job.a": None, "job.b": 2}
