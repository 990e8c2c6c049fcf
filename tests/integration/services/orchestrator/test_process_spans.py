"""Spans of all processes of a run: one trace, with the right parents, also when an orchestrator dies."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from archon import context
from archon.api.orchestrator.v1 import orchestrator_service_pb2_grpc
from archon.errors import Unavailable
from archon.submission import submit_request
from archon_services.testing import EtcdProcess
from tests.fixtures.mesh import ProcessMesh
from tests.fixtures.span_collector import Received, SpanCollector, environment, orphans
from tests.fixtures.waiting import eventually

TRACE = "0af7651916cd43dd8448eb211c80319c"


@pytest.fixture
async def traced_mesh(
    span_collector: SpanCollector, etcd: EtcdProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[ProcessMesh]:
    """A mesh with two roles whose processes all export their spans."""
    for variable, value in environment(span_collector.address).items():
        monkeypatch.setenv(variable, value)
    mesh = ProcessMesh(tmp_path, etcd.address)
    await mesh.start()
    try:
        await mesh.agent_process("first")
        await mesh.agent_process("second", "first", delay=0.5)
        yield mesh
    finally:
        await mesh.stop()


async def wait_ended(mesh: ProcessMesh, run_id: str) -> None:
    async def ended() -> bool:
        try:
            return (await mesh.client.get(run_id)).state.final
        except Unavailable:
            return False

    await eventually(ended, 30)


def named(trace: list[Received], name: str, service: str = "") -> Received:
    (received,) = [one for one in trace if one.span.name == name and service in ("", one.service)]
    return received


async def test_every_process_of_a_run_is_in_one_trace(traced_mesh: ProcessMesh, span_collector: SpanCollector) -> None:
    handle = await traced_mesh.client.submit("x", roles=["first", "second"], wait=20)
    trace = await span_collector.trace(handle.run_id, "archon-orchestrator", "archon-memory", "first", "second")
    run = named(trace, "invoke_workflow pipeline")
    assert handle.run is not None and run.trace == handle.run.trace_id
    assert run.parent == "" and orphans(trace) == []
    for role in ("first", "second"):
        client = named(trace, f"invoke_agent {role}", "archon-orchestrator")
        server = named(trace, f"invoke_agent {role}", role)
        assert (client.parent, server.parent) == (run.id, client.id)
        assert (client.span.kind, server.span.kind) == (Span.SPAN_KIND_CLIENT, Span.SPAN_KIND_SERVER)
        assert server.attributes["archon.task.state"] == client.attributes["archon.task.state"] == "completed"
        assert run.span.start_time_unix_nano <= client.span.start_time_unix_nano <= client.span.end_time_unix_nano
    published = [received for received in trace if received.span.name.endswith("MemoryGraphService/PublishItems")]
    attempts = [received.id for received in trace if received.span.kind == Span.SPAN_KIND_CLIENT]
    assert {(received.service, received.parent) for received in published} <= {
        ("archon-memory", attempt) for attempt in attempts
    }


@pytest.mark.slow
async def test_a_caller_joins_by_metadata_alone(traced_mesh: ProcessMesh, span_collector: SpanCollector) -> None:
    async with grpc.aio.insecure_channel(traced_mesh.orchestrator.address) as channel:
        stub: Any = orchestrator_service_pb2_grpc.OrchestratorServiceStub(channel)
        request = submit_request("x", roles=["first"])
        metadata = (("traceparent", f"00-{TRACE}-b7ad6b7169203331-01"), ("tracestate", "vendor=1"))
        response = await stub.SubmitRun(request, metadata=metadata)
    await wait_ended(traced_mesh, response.run.run_id)
    trace = await span_collector.trace(response.run.run_id, "first")
    rpc = named(trace, "archon.api.orchestrator.v1.OrchestratorService/SubmitRun")
    assert {received.trace for received in trace} == {TRACE}
    assert (rpc.parent, rpc.attributes["rpc.response.status_code"]) == ("b7ad6b7169203331", "OK")
    assert named(trace, "invoke_workflow agent").parent == "b7ad6b7169203331"
    assert orphans(trace, "b7ad6b7169203331") == []
    assert {received.span.trace_state for received in trace} == {"vendor=1"}


@pytest.mark.slow
async def test_a_caller_that_is_not_sampled_has_no_spans(
    traced_mesh: ProcessMesh, span_collector: SpanCollector
) -> None:
    with context.serving(context.CallContext(traceparent=f"00-{TRACE}-b7ad6b7169203331-00")):
        await traced_mesh.client.submit("x", roles=["first"], wait=20)
    sampled = await traced_mesh.client.submit("x", roles=["first"], wait=20)
    await span_collector.trace(sampled.run_id, "first")
    assert TRACE not in {received.trace for received in span_collector.spans}


@pytest.mark.slow
async def test_a_run_keeps_its_trace_when_its_orchestrator_dies(
    traced_mesh: ProcessMesh, span_collector: SpanCollector
) -> None:
    handle = await traced_mesh.client.submit("x", roles=["first", "second"])

    async def second_works() -> bool:
        return ("second", 1) in traced_mesh.executions("begin")

    await eventually(second_works, 20)
    await traced_mesh.orchestrator.kill()
    await traced_mesh.orchestrator.start()
    await wait_ended(traced_mesh, handle.run_id)
    trace = await span_collector.trace(handle.run_id, "first", "second")
    run = named(trace, "invoke_workflow pipeline")
    assert orphans(trace) == []
    assert [event.name for event in run.span.events] == ["archon.run.taken_over"]
    for role in ("first", "second"):
        client = named(trace, f"invoke_agent {role}", "archon-orchestrator")
        assert (client.parent, named(trace, f"invoke_agent {role}", role).parent) == (run.id, client.id)


@pytest.mark.slow
async def test_a_run_that_ended_before_the_crash_is_exported(
    traced_mesh: ProcessMesh, span_collector: SpanCollector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "60000")
    await traced_mesh.orchestrator.stop()
    await traced_mesh.orchestrator.start()
    handle = await traced_mesh.client.submit("x", roles=["first"], wait=20)
    await traced_mesh.orchestrator.kill()
    assert span_collector.of_run(handle.run_id) == []
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
    await traced_mesh.orchestrator.start()
    trace = await span_collector.trace(handle.run_id, "first")
    assert orphans(trace) == []
    assert len([received for received in trace if received.span.name.startswith("invoke_workflow")]) == 1
