"""Strangers that misuse shared tools, and owners that die, over processes."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import grpc
import grpc.aio
import psutil
import pytest

from archon import status
from archon.api.tool.v1 import tool_service_pb2 as pb
from archon.api.tool.v1 import tool_service_pb2_grpc
from archon.channel import agent_options
from archon.errors import Unavailable
from archon.tools import ToolClient
from archon.tools.owner.leases import MAX_LEASES
from archon.tools.owner.tool_owner import MAX_CALLS_OF_LEASE
from archon.wire import duration
from tests.fixtures.mesh import ProcessMesh
from tests.fixtures.services import ServiceProcess
from tests.fixtures.waiting import eventually, until

MODULE = "tests.fixtures.lending_process"
MB = 1024 * 1024


def stub_of(process: ServiceProcess, channel: Any) -> Any:
    return tool_service_pb2_grpc.ToolServiceStub(channel)


async def reason_of(call: Any) -> str:
    """Returns why a call or a stream failed; empty if it succeeded."""
    try:
        if hasattr(call, "__aiter__"):
            async for _ in call:
                pass
        else:
            await call
    except grpc.aio.AioRpcError as error:
        return status.from_rpc_error(error).reason
    return ""


@pytest.mark.parametrize("idempotent", [True, False])
@pytest.mark.liveness
async def test_a_killed_owner_is_replaced_only_if_that_is_safe(process_mesh: ProcessMesh, idempotent: bool) -> None:
    settings = {"module": MODULE, "delay": 30.0} | ({"ECHO_IDEMPOTENT": "1"} if idempotent else {})
    owners = [await process_mesh.agent_process("lender", **settings) for _ in range(2)]  # type: ignore[arg-type]
    async with ToolClient(process_mesh.registry.address) as client, client.lease("work") as tool:
        call = asyncio.create_task(tool.execute({"text": "x"}, timeout=60))

        async def began(times: int) -> bool:
            return len(process_mesh.executions("begin")) >= times

        await eventually(lambda: began(1))
        pid = process_mesh.ledger.read_text().split()[4]
        killed = next(owner for owner in owners if str(owner.pid) == pid)
        await killed.kill()
        if idempotent:
            await eventually(lambda: began(2))
            call.cancel()
        else:
            with pytest.raises(Unavailable):
                await call
            assert len(process_mesh.executions("begin")) == 1
        answer = await tool.execute({"text": "next", "pause": 0}, timeout=10)
        assert answer.content == "next"


@pytest.mark.search
async def test_a_flood_of_leases_and_calls_is_refused_typed(process_mesh: ProcessMesh) -> None:
    owner = await process_mesh.agent_process("lender", module=MODULE)
    memory = psutil.Process(owner.pid).memory_info
    async with ToolClient(process_mesh.registry.address) as client, client.lease("work") as honest:
        assert (await honest.execute({"text": "before"})).content == "before"
        before = memory().rss
        async with grpc.aio.insecure_channel(owner.address, options=agent_options()) as channel:
            stub = stub_of(owner, channel)
            lease = pb.LeaseToolRequest(tool_name="work", instance_id="flood", duration=duration(3600))
            reasons: Counter[str] = Counter()
            for _ in range(12):
                calls = [reason_of(stub.LeaseTool(lease, timeout=30)) for _ in range(500)]
                reasons.update(await asyncio.gather(*calls))
            assert set(reasons) == {"", "RESOURCE_EXHAUSTED"} and reasons[""] < MAX_LEASES
            made_up = [reason_of(stub.ExecuteTool(pb.ExecuteToolRequest(lease_id=str(n)))) for n in range(2_000)]
            assert set(await asyncio.gather(*made_up)) == {"LEASE_EXPIRED"}
            assert (await honest.execute({"text": "during"})).content == "during"
            large = pb.ExecuteToolRequest(lease_id="x", arguments_json='{"text": "' + "x" * 10 * MB + '"}')
            assert {await reason_of(stub.ExecuteTool(large, timeout=60)) for _ in range(30)} == {"LEASE_EXPIRED"}
        assert memory().rss - before < 400 * MB
        assert (await honest.execute({"text": "after"})).content == "after"
    assert "Traceback" not in owner.log.read_text()


async def test_a_lease_gives_a_bounded_number_of_calls_at_a_time(process_mesh: ProcessMesh) -> None:
    owner = await process_mesh.agent_process("lender", module=MODULE, delay=30.0)
    async with grpc.aio.insecure_channel(owner.address, options=agent_options()) as channel:
        stub = stub_of(owner, channel)
        lease = (await stub.LeaseTool(pb.LeaseToolRequest(tool_name="work"), timeout=5)).lease
        request = pb.ExecuteToolRequest(lease_id=lease.lease_id, arguments_json="{}")
        calls = [asyncio.create_task(reason_of(stub.ExecuteTool(request, timeout=30))) for _ in range(100)]
        await until(lambda: sum(call.done() for call in calls) >= 100 - MAX_CALLS_OF_LEASE)
        assert {call.result() for call in calls if call.done()} == {"RESOURCE_EXHAUSTED"}
        assert len(process_mesh.executions("begin")) <= MAX_CALLS_OF_LEASE
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
