"""One trace through the mesh: from the caller through a coordinating agent to the agent that it delegates to."""

from __future__ import annotations

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from archon import context
from archon_mesh.agent import Agent
from archon_mesh.agent.hooks.tracing import TracingMiddleware
from archon_mesh.core.messages import ToolCall
from archon_mesh.node.handler import agent_handler
from tests.fixtures.mesh import Mesh
from tests.fixtures.scripted_model import ScriptedModel, says
from tests.integration.services.orchestrator.troupe import Troupe

TRACE = "0af7651916cd43dd8448eb211c80319c"


async def test_contract_rule_1_a_run_is_traced_under_its_caller(mesh: Mesh, troupe: Troupe) -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("test")
    poet = Agent("poet", model=ScriptedModel(says("A verse.")))
    lead = Agent("lead", model=ScriptedModel(says("", ToolCall("c", "poet", '{"task": "the sea"}')), says("Done.")))
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
    assert above.attributes is not None and above.attributes["archon.run_id"] == handle.run_id
