"""Spans of agents: names, parents and status, with OpenTelemetry's SDK."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from archon import context
from archon.api.agent.v1 import agent_pb2
from archon.api.common.v1 import common_pb2
from archon.errors import Unavailable
from archon_mesh.agent import Agent, HookError, Middleware, PermissionMiddleware
from archon_mesh.agent.hooks.tracing import TracingMiddleware
from archon_mesh.core.messages import ToolCall
from archon_mesh.llm import ScriptedModel
from archon_mesh.tools.result import ToolResult
from tests.fixtures.fake_link import FakeLink
from tests.fixtures.scripted_model import says

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Spans:
    """`traced` creates a middleware; the other methods read the exported spans."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = provider.get_tracer("test")

    def traced(self, **more: Any) -> TracingMiddleware:
        return TracingMiddleware(self.tracer, **more)

    def tree(self) -> list[str]:
        """`parent > name`, by start."""
        spans = self.all()
        names = {span.context.span_id: span.name for span in spans if span.context}
        return [f"{names.get(span.parent.span_id, '?') if span.parent else ''} > {span.name}" for span in spans]

    def all(self) -> list[ReadableSpan]:
        return sorted(self._exporter.get_finished_spans(), key=lambda span: span.start_time or 0)

    def named(self, name: str) -> ReadableSpan:
        (span,) = [span for span in self.all() if span.name == name]
        return span


@pytest.fixture
def spans() -> Spans:
    return Spans()


def clock() -> str:
    """Returns the time."""
    return "noon"


def asks(*names: str) -> Any:
    return says("", *(ToolCall(f"c{number}", name, '{"task": "x"}') for number, name in enumerate(names)))


async def test_run_model_and_tool_spans_follow_the_genai_conventions(spans: Spans) -> None:
    model = ScriptedModel([says("", ToolCall("c1", "clock", "{}")), says("Noon.")])
    agent = Agent("clerk", model=model, tools=[clock], temperature=0.5, max_tokens=50).use(spans.traced())
    agent.session_id = "s"
    await agent.run_async("What time is it?")
    assert spans.tree() == [
        " > invoke_agent clerk",
        "invoke_agent clerk > chat scripted",
        "invoke_agent clerk > execute_tool clock",
        "invoke_agent clerk > chat scripted",
    ]
    run, chat, tool, _ = spans.all()
    assert run.attributes is not None and chat.attributes is not None and tool.attributes is not None
    assert run.attributes["gen_ai.operation.name"] == "invoke_agent"
    assert (run.attributes["gen_ai.agent.name"], run.attributes["gen_ai.conversation.id"]) == ("clerk", "s")
    assert run.attributes["archon.agent.iterations"] == 2
    assert chat.kind is SpanKind.CLIENT
    assert dict(chat.attributes) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "scripted",
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.max_tokens": 50,
        "gen_ai.response.model": "scripted",
        "gen_ai.response.finish_reasons": ("tool_calls",),
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 10,
    }
    assert dict(tool.attributes) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "clock",
        "gen_ai.tool.call.id": "c1",
        "gen_ai.tool.type": "function",
    }
    assert all(span.status.status_code is StatusCode.UNSET for span in spans.all())
    assert not any("content" in key or "messages" in key for span in spans.all() for key in span.attributes or ())


async def test_content_is_recorded_only_if_enabled(spans: Spans) -> None:
    model = ScriptedModel([says("", ToolCall("c1", "clock", "{}")), says("Noon.")])
    await Agent("clerk", model=model, tools=[clock]).use(spans.traced(content=True)).run_async("What time?")
    run, tool = spans.named("invoke_agent clerk").attributes, spans.named("execute_tool clock").attributes
    assert run is not None and tool is not None
    said = [{"role": "user", "parts": [{"type": "text", "content": "What time?"}]}]
    assert json.loads(str(run["gen_ai.input.messages"])) == said
    assert json.loads(str(run["gen_ai.output.messages"]))[0]["parts"] == [{"type": "text", "content": "Noon."}]
    assert tool["gen_ai.tool.call.result"] == "noon"
    first, second = [dict(span.attributes or {}) for span in spans.all() if span.name.startswith("chat")]
    (reply,) = json.loads(str(first["gen_ai.output.messages"]))
    call = {"type": "tool_call", "id": "c1", "name": "clock", "arguments": "{}"}
    assert (reply["parts"], reply["finish_reason"]) == ([call], "tool_calls")
    *_, answer = json.loads(str(second["gen_ai.input.messages"]))
    assert answer["parts"] == [{"type": "tool_call_response", "id": "c1", "response": "noon"}]


async def test_sub_agents_are_traced_below_the_call_even_in_parallel(
    spans: Spans,
) -> None:
    lead = Agent("lead", model=ScriptedModel([asks("poet", "critic"), says("Done.")]))
    lead.register_agent(Agent("poet", description="Rhymes.", model=ScriptedModel([says("A verse.")])))
    judging = ScriptedModel([says("", ToolCall("d", "clock", "{}")), says("Good.")])
    deep = Agent("critic", description="Judges.", model=judging, tools=[clock])
    lead.register_agent(deep)
    await lead.use(spans.traced()).run_async("x")
    tree = spans.tree()
    for below in (
        "invoke_agent lead > execute_tool poet",
        "execute_tool poet > invoke_agent poet",
        "invoke_agent poet > chat scripted",
        "execute_tool critic > invoke_agent critic",
        "invoke_agent critic > execute_tool clock",
    ):
        assert tree.count(below) == 1, tree
    assert len({span.context.trace_id for span in spans.all() if span.context}) == 1
    attributes = spans.named("execute_tool poet").attributes
    assert attributes is not None and attributes["gen_ai.tool.type"] == "agent"


async def test_sub_agent_with_its_own_middleware_is_traced_once(spans: Spans) -> None:
    lead = Agent("lead", model=ScriptedModel([asks("poet"), says("Done.")])).use(spans.traced())
    lead.register_agent(Agent("poet", description="Rhymes.", model=ScriptedModel([says("A.")])).use(spans.traced()))
    await lead.run_async("x")
    assert spans.tree().count("execute_tool poet > invoke_agent poet") == 1


async def test_failure_sets_the_error_type_of_its_spans(spans: Spans) -> None:
    def broken() -> str:
        """Breaks."""
        raise ValueError("it broke")

    model = ScriptedModel([says("", ToolCall("c1", "broken", "{}")), Unavailable("the model is away")])
    with pytest.raises(Unavailable):
        await Agent("clerk", model=model, tools=[broken], retries=0).use(spans.traced()).run_async("x")
    tool, run = spans.named("execute_tool broken"), spans.named("invoke_agent clerk")
    assert tool.status.status_code is run.status.status_code is StatusCode.ERROR
    assert run.attributes is not None and run.attributes["error.type"] == "UNAVAILABLE"
    assert run.status.description == "the model is away"
    assert [span.status.status_code for span in spans.all() if span.name == "chat scripted"] == [
        StatusCode.UNSET,
        StatusCode.ERROR,
    ]


async def test_cancelled_run_ends_all_its_spans(spans: Spans) -> None:
    begun = asyncio.Event()

    async def slow() -> str:
        """Takes long."""
        begun.set()
        await asyncio.Event().wait()
        return "never"

    agent = Agent("clerk", model=ScriptedModel([says("", ToolCall("c1", "slow", "{}"))]), tools=[slow])
    running = asyncio.create_task(agent.use(spans.traced()).run_async("x"))
    await asyncio.wait_for(begun.wait(), 60)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert {span.name: span.status.status_code for span in spans.all()} == {
        "invoke_agent clerk": StatusCode.ERROR,
        "chat scripted": StatusCode.UNSET,
        "execute_tool slow": StatusCode.ERROR,
    }


async def test_outermost_span_continues_the_served_trace(
    spans: Spans,
) -> None:
    seen: list[context.CallContext] = []

    def look() -> str:
        """Looks."""
        seen.append(context.current())
        return "seen"

    agent = Agent("clerk", model=ScriptedModel([says("", ToolCall("c1", "look", "{}")), says("So.")]), tools=[look])
    call = context.CallContext(traceparent=PARENT, tracestate="vendor=1", run_id="r", task_id="r.1")
    with context.serving(call):
        await agent.use(spans.traced()).run_async("x")
        assert context.current() is call
    run = spans.named("invoke_agent clerk")
    assert run.parent is not None and f"{run.parent.trace_id:032x}-{run.parent.span_id:016x}" in PARENT
    assert run.attributes is not None and run.attributes["archon.run.id"] == "r"
    (within,) = seen
    assert within.traceparent.split("-")[1] == PARENT.split("-")[1]
    assert within.traceparent != PARENT, "the run's own span is the parent"
    assert (within.tracestate, within.run_id, within.deadline) == ("vendor=1", "r", call.deadline)


async def test_delegation_propagates_the_span_that_makes_it() -> None:
    from archon.agent import TaskContext
    from archon.api.agent.v1 import session_pb2

    requests: list[session_pb2.Delegate] = []

    class Link(FakeLink):
        async def delegate(self, delegation: session_pb2.Delegate) -> session_pb2.DelegateResult:
            requests.append(delegation)
            return session_pb2.DelegateResult(result=agent_pb2.TaskResult(state=common_pb2.TASK_STATE_COMPLETED))

    assigned = agent_pb2.AssignTask(trace=common_pb2.TraceContext(traceparent="of the task"))
    task = TaskContext.from_proto(common_pb2.TaskRef(task_id="t"), assigned, Link([]))
    with context.serving(context.CallContext(traceparent=PARENT)):
        await task.delegate("x", role="a")
    await task.delegate("x", role="a")
    assert [request.trace.traceparent for request in requests] == [PARENT, "of the task"]


async def test_without_a_tracer_provider_the_answer_is_unchanged() -> None:
    agent = Agent("clerk", model=ScriptedModel([says("Noon.")])).use(TracingMiddleware())
    assert await agent.run_async("x") == "Noon."


async def test_call_answered_by_a_hook_is_a_span_without_children(
    spans: Spans,
) -> None:
    model = ScriptedModel([says("", ToolCall("c1", "clock", "{}")), says("I may not know.")])
    agent = Agent("clerk", model=model, tools=[clock]).use(
        spans.traced(), PermissionMiddleware(lambda hook: "no clocks")
    )
    await agent.run_async("x")
    assert spans.tree()[-1] == "invoke_agent clerk > chat scripted"
    tool = spans.named("execute_tool clock")
    assert tool.attributes is not None and tool.attributes["error.type"] == "PERMISSION_DENIED"
    assert tool.status.description == "no clocks"


async def test_tool_wrapper_may_replace_the_call_and_errors_name_it() -> None:
    class Cached(Middleware):
        async def wrap_tool_call(self, tool_call: ToolCall, call: Any) -> ToolResult:
            return ToolResult("cached")

    class Broken(Middleware):
        async def wrap_tool_call(self, tool_call: ToolCall, call: Any) -> ToolResult:
            await call()
            raise KeyError("oops")

    def scripted() -> ScriptedModel:
        return ScriptedModel([says("", ToolCall("c1", "clock", "{}")), says("So.")])

    agent = Agent("clerk", model=scripted(), tools=[clock]).use(Cached())
    await agent.run_async("x")
    assert [message.content for message in agent.history if message.role == "tool"] == ["cached"]
    with pytest.raises(HookError, match=r"Broken\.wrap_tool_call raised KeyError"):
        await Agent("clerk", model=scripted(), tools=[clock]).use(Broken()).run_async("x")


async def test_query_wrapper_is_named_in_its_own_errors_only() -> None:
    class Broken(Middleware):
        async def wrap_query(self, state: Any, message: str, call: Any) -> str:
            await call()
            raise KeyError("oops")

    class Passing(Middleware):
        async def wrap_query(self, state: Any, message: str, call: Any) -> str:
            return f"<{await call()}>"

    with pytest.raises(HookError, match=r"Broken\.wrap_query raised KeyError"):
        await Agent("clerk", model=ScriptedModel([says("x")])).use(Broken()).run_async("x")
    assert await Agent("clerk", model=ScriptedModel([says("x")])).use(Passing(), Passing()).run_async("x") == "<<x>>"

    class Own(Exception):
        pass

    with pytest.raises(Own):
        await Agent("clerk", model=ScriptedModel([Own()])).use(Passing()).run_async("x")
