"""Rows 19, 20, 22 and 23: oversized results, slow watchers, unknown roles, and a rolling restart of everything."""

from __future__ import annotations

import asyncio

import pytest

from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.api.orchestrator.v1 import orchestrator_service_pb2_grpc
from archon.channel import connect
from archon.errors import UnknownRole
from tests.failures.arena import HEALED_WITHIN, ROLES, Arena, hold

pytestmark = pytest.mark.slow


@pytest.mark.liveness
async def test_huge_result(arena: Arena) -> None:
    async with arena.row("an agent's result of 50 MB", 19) as strike:
        strike.begins()
        run = (await arena.client.submit("big 50000000", roles=["reader"], wait=20)).run
        assert "FRAME_TOO_LARGE" in str(run.failure), run.failure
        strike.ends()


@pytest.mark.liveness
async def test_watcher_that_never_reads(arena: Arena) -> None:
    async with arena.row("a watcher that never reads", 20) as strike:
        strike.begins()
        async with connect(arena.orchestrator.address) as channel:
            stub = orchestrator_service_pb2_grpc.OrchestratorServiceStub(channel)
            calls = []
            for _ in range(20):
                run = await arena.client.submit("x", roles=list(ROLES))
                calls.append(stub.WatchRun(pb.WatchRunRequest(run_id=run.run_id)))
            await hold(4)
            for call in calls:
                call.cancel()
        strike.ends()


@pytest.mark.liveness
async def test_rolling_restart(arena: Arena) -> None:
    async with arena.row("rolling restart of everything", 22) as strike:
        strike.begins()
        everything = [*arena.processes, arena.orchestrator, arena.second, arena.registry, arena.memory]
        for process in everything:
            assert await process.stop() == 0
            await process.start()
            await hold(0.5)
        strike.ends()


@pytest.mark.liveness
async def test_unknown_role(arena: Arena) -> None:
    async with arena.row("a submit for a role without an instance", 23) as strike:
        strike.begins()
        for client in arena.clients:
            async with asyncio.timeout(HEALED_WITHIN):
                with pytest.raises(UnknownRole):
                    await client.submit("x", roles=["absent"])
        strike.ends()
