"""A Converse stream that the orchestrator ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc.aio
import pytest

from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.api.orchestrator.v1 import orchestrator_service_pb2_grpc
from archon.channel import server_options
from archon.client import Client
from archon.errors import Unavailable
from tests.fixtures.waiting import eventually


class Ending(orchestrator_service_pb2_grpc.OrchestratorServiceServicer):
    """Ends each stream after its first command."""

    async def Converse(self, commands: AsyncIterator[pb.ConverseRequest], context: Any) -> None:  # type: ignore[override]
        await anext(commands)
        await context.abort(grpc.StatusCode.UNAVAILABLE, "the orchestrator leaves")


async def test_a_stream_that_the_orchestrator_ends_leaves_no_task_behind() -> None:
    server = grpc.aio.server(options=server_options())
    port = server.add_insecure_port("127.0.0.1:0")
    orchestrator_service_pb2_grpc.add_OrchestratorServiceServicer_to_server(Ending(), server)  # type: ignore[abstract]
    await server.start()
    try:
        before = asyncio.all_tasks()
        async with Client(f"127.0.0.1:{port}") as client, client.converse() as stream:
            with pytest.raises(Unavailable, match="the orchestrator leaves"):
                await stream.submit("x")
            with pytest.raises(Unavailable):
                await stream.submit("x")

            async def has_no_writer() -> bool:
                return not any("_consume_request_iterator" in repr(task) for task in asyncio.all_tasks() - before)

            await eventually(has_no_writer)
    finally:
        await server.stop(0)
