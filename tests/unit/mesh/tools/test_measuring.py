"""Tool calls and circuit breakers are measured by tool."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from archon.telemetry import metrics
from archon.telemetry.metrics import Recorder
from archon_mesh.tools import Tool, ToolExecutionEngine, ToolRegistry
from archon_mesh.tools.breaker import FAILURES
from tests.fixtures.metrics import measuring, points, reader, recorder, values

__all__ = ["measuring", "reader", "recorder"]


class Moody(Tool):
    """Answers, raises, or takes too long, as its argument says."""

    name = "moody"
    description = "answers as it is asked to"
    parameters_schema = {"type": "object", "properties": {"mood": {"type": "string"}}, "required": ["mood"]}
    timeout = 0.05
    cache_seconds = 0.0

    async def execute(self, **kwargs: Any) -> str:
        """Does as it is asked to."""
        if kwargs["mood"] == "late":
            await asyncio.Event().wait()
        if kwargs["mood"] == "broken":
            raise RuntimeError("broken")
        return "fine"


class Cached(Moody):
    """Remembers its answers."""

    name = "cached"
    idempotent = True
    cache_seconds = 60.0


def engine_of(*tools: Tool) -> ToolExecutionEngine:
    registry = ToolRegistry()
    for tool in tools:
        registry.register_tool(tool)
    return ToolExecutionEngine(registry)


async def test_calls_are_counted_by_tool_and_outcome(measuring: Recorder, reader: InMemoryMetricReader) -> None:
    engine = engine_of(Moody(), Cached())
    for mood in ("good", "good", "broken", "late"):
        await engine.execute_tool_call("moody", {"mood": mood})
    await engine.execute_tool_call("moody", {"no": "argument"})
    for _ in range(2):
        await engine.execute_tool_call("cached", '{"mood": "good"}')
    await engine.execute_tool_call("invented by the model", {})
    assert values(reader, metrics.TOOL_CALLS) == {
        ("moody", "success"): 2,
        ("moody", "error"): 1,
        ("moody", "timeout"): 1,
        ("moody", "refused"): 1,
        ("cached", "success"): 1,
        ("cached", "cached"): 1,
    }
    durations = {point.attributes["gen_ai.tool.name"]: point.count for point in points(reader, metrics.TOOL_DURATION)}
    assert durations == {"moody": 4, "cached": 1}


async def test_the_state_of_a_breaker_is_exported_while_it_exists(
    measuring: Recorder, reader: InMemoryMetricReader
) -> None:
    engine = engine_of(Moody(), Cached())
    for name in ("moody", "cached"):
        await engine.execute_tool_call(name, {"mood": "good"})
    assert values(reader, metrics.TOOL_BREAKERS) == {("moody", "closed"): 1, ("cached", "closed"): 1}
    for _ in range(FAILURES):
        await engine.execute_tool_call("moody", {"mood": "broken"})
    assert values(reader, metrics.TOOL_BREAKERS) == {("moody", "open"): 1, ("cached", "closed"): 1}
    del engine
    gc.collect()
    assert values(reader, metrics.TOOL_BREAKERS) == {}


@pytest.mark.usefixtures("recorder")
async def test_nothing_is_measured_without_an_exporter(reader: InMemoryMetricReader) -> None:
    await engine_of(Moody()).execute_tool_call("moody", {"mood": "good"})
    assert values(reader, metrics.TOOL_CALLS) == {}
