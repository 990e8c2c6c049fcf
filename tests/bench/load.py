"""One measurement: so many runs at a concurrency, or with the driver `trickle` at a rate, over an edge. Gives
latencies in seconds and runs per second."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import grpc.aio

from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.api.orchestrator.v1 import orchestrator_service_pb2_grpc
from archon.channel import service_options
from archon.client import Client
from tests.bench.drive import GOAL, Driver, Measured, drive
from tests.bench.peers import METHOD
from tests.bench.security import Security


async def floor(target: str, runs: int, concurrency: int, driver: Driver = drive) -> Measured:
    """The edge of the floor."""
    async with grpc.aio.insecure_channel(target) as channel:
        method: Any = channel.unary_unary(METHOD)

        async def one() -> None:
            await method(GOAL.encode())

        await one()
        return await driver(one, runs, concurrency)


async def calls(targets: str, runs: int, concurrency: int, driver: Driver = drive) -> Measured:
    """The edge of the floor without the hop from client to orchestrator: one call to each of `targets`, after each
    other."""
    async with AsyncExitStack() as stack:
        channels = [await stack.enter_async_context(grpc.aio.insecure_channel(each)) for each in targets.split(",")]
        methods: list[Any] = [channel.unary_unary(METHOD) for channel in channels]

        async def one() -> None:
            goal = content = GOAL.encode()
            for method in methods:
                content = goal + await method(content)

        await one()
        return await driver(one, runs, concurrency)


def _channel(target: str, security: Security | None) -> grpc.aio.Channel:
    if security is not None:
        return security.channel(target)
    return grpc.aio.insecure_channel(target, options=service_options())


async def unary(
    target: str, runs: int, concurrency: int, driver: Driver = drive, *, security: Security | None = None
) -> Measured:
    """SubmitRun with wait, over bare stubs."""
    metadata = security.metadata() if security is not None else ()
    async with _channel(target, security) as channel:
        stub: Any = orchestrator_service_pb2_grpc.OrchestratorServiceStub(channel)
        request = pb.SubmitRunRequest(goal=[common_pb2.Part(text=GOAL)])
        request.wait.seconds = 30

        async def one() -> None:
            response = await stub.SubmitRun(request, metadata=metadata)
            assert response.run.state == common_pb2.TASK_STATE_COMPLETED, response.run.failure

        await _until_known(one)
        return await driver(one, runs, concurrency)


async def converse(
    target: str, runs: int, concurrency: int, driver: Driver = drive, *, security: Security | None = None
) -> Measured:
    """Many runs on one stream; a run is done when its last event has come."""
    made = Client(target) if security is None else security.client(target)
    async with made as client, client.converse() as conversation:
        ends: dict[str, asyncio.Event] = {}

        def end(run_id: str) -> asyncio.Event:
            return ends.setdefault(run_id, asyncio.Event())

        async def read() -> None:
            async for event in conversation:
                if event.type == "run_state":
                    assert event.proto.run_state.state == common_pb2.TASK_STATE_COMPLETED, event.proto.run_state.failure
                    end(event.run_id).set()

        reading = asyncio.create_task(read())

        async def one() -> None:
            run = await conversation.submit(GOAL)
            await end(run.run_id).wait()
            del ends[run.run_id]

        await _until_known(one)
        measured = await driver(one, runs, concurrency)
        await conversation.done()
        await reading
        return measured


async def _until_known(one: Callable[[], Awaitable[None]]) -> None:
    """The orchestrator has to have heard of the agents first."""
    async with asyncio.timeout(10):
        while True:
            try:
                await one()
                return
            except Exception:  # noqa: BLE001 - whatever it is, it passes or the time is over
                await asyncio.sleep(0.1)
