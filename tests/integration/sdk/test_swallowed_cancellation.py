"""A task that is cancelled while the status of its stream arrives is cancelled, though grpc.aio swallows that."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from archon.api.registry.v1 import registry_service_pb2 as pb
from archon.api.registry.v1 import registry_service_pb2_grpc
from archon.channel import attach_options, connect
from archon.interceptors import translated
from tests.fixtures.ports import free_ports


async def _requests() -> AsyncIterator[pb.KeepAliveRequest]:
    await asyncio.Event().wait()
    yield pb.KeepAliveRequest()


async def test_a_cancellation_that_meets_the_status_of_a_stream_counts() -> None:
    [unused] = free_ports(1)
    async with connect(f"127.0.0.1:{unused}", attach_options()) as channel:
        stub: Any = registry_service_pb2_grpc.RegistryServiceStub(channel)
        call = stub.KeepAlive(_requests())

        async def read() -> None:
            async for _ in translated(call):
                pass

        task = asyncio.create_task(read())
        call.add_done_callback(lambda _: task.cancel())
        await asyncio.wait([task], timeout=5.0)
        assert task.cancelled()
