"""One trace through the mesh: from the caller through a coordinating agent to the agent that it delegates to."""

from __future__ import annotations

import asyncio
import os
import sys
import uuid
from contextlib import aclosing

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from archon import context
from archon_mesh.agent import Agent
from archon_mesh.agent.hooks.tracing import TracingMiddleware
from archon_mesh.core.messages import ToolCall
from archon_mesh.llm import ScriptedModel
from archon_mesh.node.handler import agent_handler
from tests.fixtures.mesh import Mesh
from tests.fixtures.scripted_model import says
from tests.integration.services.orchestrator.troupe import Troupe

TRACE = "0af7651916cd43dd8448eb211c80319c"


async def test_contract_rule_1_a_run_is_traced_under_its_caller(mesh: Mesh, troupe: Troupe) -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("test")
    poet = Agent("poet", model=ScriptedModel([says("A verse.")]))
    lead = Agent("lead", model=ScriptedModel([says("", ToolCall("c", "poet", '{"task": "the sea"}')), says("Done.")]))
    await troupe("poet", agent_handler(poet.use(TracingMiddleware(tracer)), memory=""))
    await troupe("lead", agent_handler(lead.use(TracingMiddleware(tracer)), memory=""), coordinator=True)
    with context.serving(context.CallContext(traceparent=f"00-{TRACE}-b7ad6b7169203331-01")):
        handle = await mesh.client.submit("x", roles=["lead"], strategy="agent", wait=10)
    assert handle.run is not None
    spans = {span.name: span for span in exporter.get_finished_spans()}
    assert {f"{span.context.trace_id:032x}" for span in spans.values() if span.context} == {TRACE}
    call, below = spans["execute_tool poet"], spans["invoke_agent poet"]
    assert below.parent is not None and call.context is not None
    assert below.parent.span_id == call.context.span_id, (
        "the span's context travels over the wire and through the journal"
    )
    above = spans["invoke_agent lead"]
    assert above.parent is not None and f"{above.parent.span_id:016x}" == "b7ad6b7169203331"
    assert above.attributes is not None and above.attributes["archon.run.id"] == handle.run_id


async def trace_of(mesh: Mesh, run_id: str) -> str:
    async with aclosing(mesh.client.watch(run_id)) as events:
        return (await anext(events)).proto.submitted.trace.traceparent


async def test_a_run_joins_the_current_span_of_its_caller(mesh: Mesh) -> None:
    tracer = TracerProvider().get_tracer("test")
    with tracer.start_as_current_span("caller") as span:
        handle = await mesh.client.submit("x", roles=["requirements"], wait=10)
        async with mesh.client.converse() as stream:
            with tracer.start_as_current_span("one of many on the stream") as inner:
                streamed = await stream.submit("x", roles=["requirements"])
    of_span, of_inner = span.get_span_context(), inner.get_span_context()
    assert (
        await trace_of(mesh, handle.run_id)
        == f"00-{of_span.trace_id:032x}-{of_span.span_id:016x}-{of_span.trace_flags:02x}"
    )
    assert (
        await trace_of(mesh, streamed.run_id)
        == f"00-{of_inner.trace_id:032x}-{of_inner.span_id:016x}-{of_inner.trace_flags:02x}"
    )
    without = await mesh.client.submit("x", roles=["requirements"], wait=10)
    assert await trace_of(mesh, without.run_id) == ""


async def test_a_run_of_the_command_line_joins_the_trace_of_its_environment(mesh: Mesh) -> None:
    parent = f"00-{TRACE}-b7ad6b7169203331-01"
    session = uuid.uuid4().hex
    code = "from archon_services.cli.main import main; main()"
    options = ["--role", "requirements", "--session", session, "--orchestrator", mesh.orchestrator.address]
    command = await asyncio.create_subprocess_exec(
        *[sys.executable, "-c", code, "run", "x", *options],
        env={**os.environ, "TRACEPARENT": parent},
        stdout=asyncio.subprocess.DEVNULL,
    )
    assert await asyncio.wait_for(command.wait(), 60) == 0
    (run,) = await mesh.client.list_runs(session_id=session)
    assert await trace_of(mesh, run.run_id) == parent
