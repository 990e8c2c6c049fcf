"""A client that goes away in the middle of a write leaves no traceback in any log, and no watch behind."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import uuid
from contextlib import AsyncExitStack

import pytest

from archon.testing import FakeAgent
from tests.fixtures.mesh import ProcessMesh

MB = 1024 * 1024

LEAVES = """
import os, sys, threading, time
import grpc
from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.api.orchestrator.v1 import orchestrator_service_pb2_grpc
from archon.api.registry.v1 import registry_service_pb2, registry_service_pb2_grpc

how, target, run_id = sys.argv[1:]
channel = grpc.insecure_channel(target, options=[("grpc.max_receive_message_length", 64 * 1024 * 1024)])
stub = orchestrator_service_pb2_grpc.OrchestratorServiceStub(channel)
if how == "watch":
    calls = [stub.WatchRun(pb.WatchRunRequest(run_id=run_id)) for _ in range(20)]
    next(iter(calls[0]))
elif how == "unary":
    calls = [stub.GetRun.future(pb.GetRunRequest(run_id=run_id)) for _ in range(50)]
    time.sleep(0.05)
else:
    def commands():
        for _ in range(50):
            yield pb.ConverseRequest(correlation_id="c", watch=pb.WatchRunRequest(run_id=run_id))
        time.sleep(60)
    next(iter(stub.Converse(commands())))
os._exit(0)  # like kill -9: nothing is cancelled
"""


@pytest.mark.parametrize(
    "how", [pytest.param("watch", marks=pytest.mark.slow), "unary", pytest.param("converse", marks=pytest.mark.slow)]
)
async def test_a_client_that_dies_while_it_is_written_to_leaves_no_trace(mesh: ProcessMesh, how: str) -> None:
    roles = [f"wordy-{uuid.uuid4().hex[:6]}" for _ in range(6)]
    async with AsyncExitStack() as stack:
        for role in roles:
            agent = FakeAgent(role, ["x" * MB], registry=mesh.registry.address)
            await mesh.seen((await stack.enter_async_context(agent)).address)
        run = await (await mesh.client.submit("x", roles=roles)).result(timeout=30)
    for _ in range(3):
        arguments = [sys.executable, "-c", LEAVES, how, mesh.orchestrator.address, run.run_id]
        done = await asyncio.to_thread(subprocess.run, arguments, capture_output=True, text=True, timeout=30)
        assert done.returncode == 0, done.stderr
    assert (await mesh.client.get(run.run_id)).state == run.state
    log = mesh.orchestrator.log.read_text()
    assert "Traceback" not in log, log[-3000:]
    assert "never retrieved" not in log
