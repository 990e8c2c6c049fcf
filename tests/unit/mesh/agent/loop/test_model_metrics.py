"""Model calls and iterations of an agent are measured."""

from __future__ import annotations

from dataclasses import replace

import pytest
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider

from archon.errors import ArchonError, Unavailable
from archon.telemetry import metrics
from archon.telemetry.metrics import Recorder
from archon_mesh.agent import Agent, ContextCompactionMiddleware
from archon_mesh.agent.hooks.tracing import TracingMiddleware
from archon_mesh.core.messages import ToolCall
from archon_mesh.llm import ScriptedModel, Usage
from tests.fixtures.metrics import collected, measuring, points, reader, recorder
from tests.fixtures.scripted_model import says

__all__ = ["measuring", "reader", "recorder"]


def double(number: int) -> int:
    """Doubles a number."""
    return 2 * number


async def test_each_model_call_and_iteration_is_recorded(measuring: Recorder, reader: InMemoryMetricReader) -> None:
    replies = [says("", ToolCall("c", "double", '{"number": 4}')), says("Eight.")]
    agent = Agent("counter", model=ScriptedModel(replies), tools=[double])
    assert await agent.run_async("Double 4") == "Eight."
    [duration] = points(reader, metrics.MODEL_DURATION)
    assert duration.count == 2
    assert duration.attributes["gen_ai.agent.name"] == "counter"
    assert duration.attributes["gen_ai.operation.name"] == "chat"
    assert "error.type" not in duration.attributes
    tokens = {point.attributes["gen_ai.token.type"]: point for point in points(reader, metrics.TOKEN_USAGE)}
    assert {kind: point.count for kind, point in tokens.items()} == {"input": 2, "output": 2}
    assert tokens["input"].sum == sum(reply.usage.input_tokens for reply in replies)
    [cycle] = points(reader, metrics.CYCLE_DURATION)
    assert (cycle.count, dict(cycle.attributes)) == (2, {"gen_ai.agent.name": "counter"})
    assert points(reader, metrics.CONTEXT_USAGE) == []


async def test_the_hit_rate_of_the_cache_is_its_share_of_the_input(
    measuring: Recorder, reader: InMemoryMetricReader
) -> None:
    reply = replace(says("Hello."), usage=Usage(1_000, 10, cached_input_tokens=800))
    await Agent("counter", model=ScriptedModel([reply])).run_async("Hello")
    [hits] = points(reader, metrics.CACHE_HITS)
    assert (hits.count, hits.sum) == (1, 0.8)


async def test_a_failed_call_has_the_reason_of_its_error(measuring: Recorder, reader: InMemoryMetricReader) -> None:
    agent = Agent("counter", model=ScriptedModel([Unavailable("down"), says("Up.")]), retries=0)
    with pytest.raises(ArchonError):
        await agent.run_async("Hello")
    assert await agent.run_async("Hello") == "Up."
    counts = {point.attributes.get("error.type"): point.count for point in points(reader, metrics.MODEL_DURATION)}
    assert counts == {"UNAVAILABLE": 1, None: 1}
    [cycle] = points(reader, metrics.CYCLE_DURATION)
    assert cycle.count == 2


async def test_context_usage_is_the_share_of_the_window(measuring: Recorder, reader: InMemoryMetricReader) -> None:
    reply = says("Hello.")
    window = reply.usage.input_tokens * 4
    agent = Agent("counter", model=ScriptedModel([reply])).use(ContextCompactionMiddleware(window, auto_compact=False))
    await agent.run_async("Hello")
    [usage] = points(reader, metrics.CONTEXT_USAGE)
    assert usage.sum == pytest.approx(0.25)


async def test_a_streamed_reply_has_a_time_to_the_first_chunk(
    measuring: Recorder, reader: InMemoryMetricReader
) -> None:
    agent = Agent("counter", model=ScriptedModel([says("Hello."), says("Again.")]))
    await agent.run_async("Hello")
    assert points(reader, metrics.FIRST_CHUNK) == []
    await agent.run_async("Hello", event_handlers=[lambda event: None])
    [first] = points(reader, metrics.FIRST_CHUNK)
    assert first.count == 1


async def test_values_of_a_traced_run_have_its_trace_as_exemplar(
    measuring: Recorder, reader: InMemoryMetricReader
) -> None:
    tracer = TracerProvider().get_tracer("test")
    replies = [says("", ToolCall("c", "double", '{"number": 4}')), says("Eight.")]
    agent = Agent("counter", model=ScriptedModel(replies), tools=[double]).use(TracingMiddleware(tracer))
    with tracer.start_as_current_span("the caller") as span:
        await agent.run_async("Double 4")
    data = collected(reader)
    for metric in (metrics.MODEL_DURATION, metrics.TOKEN_USAGE, metrics.TOOL_DURATION, metrics.CYCLE_DURATION):
        traces = {exemplar.trace_id for point in data[metric.name] for exemplar in point.exemplars}
        assert traces == {span.get_span_context().trace_id}, metric.name
