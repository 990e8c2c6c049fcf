"""Each call of a model and of a tool has one log line, without contents."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from archon.errors import Unavailable
from archon_mesh.agent import Agent
from archon_mesh.agent.hooks.compaction import ContextCompactionMiddleware
from archon_mesh.agent.loop import model_call
from archon_mesh.core.messages import ChatMessage, ToolCall
from archon_mesh.llm import ModelReply, ScriptedModel
from archon_mesh.llm.base import Usage
from archon_mesh.tools import ToolExecutionEngine, ToolRegistry, ToolResult, tool
from tests.fixtures.scripted_model import says

SECRET = "the-content-of-the-call"


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "archon.calls")
    return caplog


def of_calls(records: list[logging.LogRecord]) -> list[dict[str, Any]]:
    """The fields of the lines about calls."""
    names = ("agent", "model", "tool", "input_tokens", "output_tokens", "cost_usd", "outcome", "reason")
    own = [vars(record) for record in records if record.name == "archon.calls"]
    assert all(0 <= fields["seconds"] < 60 for fields in own)
    return [{name: fields[name] for name in names if name in fields} for fields in own]


@tool
def search(text: str) -> str:
    """Searches for a text."""
    return f"found {text}"


@tool
def broken(text: str) -> str:
    """Fails."""
    raise ConnectionError(text)


async def test_a_run_has_a_line_for_each_model_and_tool_call(lines: pytest.LogCaptureFixture) -> None:
    arguments = f'{{"text": "{SECRET}"}}'
    reply = ModelReply("", (ToolCall("1", "search", arguments),), Usage(120, 40, cost_micro_usd=1500), "m-1", "stop")
    agent = Agent("finder", model=ScriptedModel([reply, says(SECRET)]), tools=[search])
    await agent.run_async(SECRET)
    first, called, last = of_calls(lines.records)
    spent = {"input_tokens": 120, "output_tokens": 40, "cost_usd": 0.0015}
    assert first == {"agent": "finder", "model": "m-1", "outcome": "ok", **spent}
    assert called == {"agent": "finder", "tool": "search", "outcome": "ok"}
    assert last["outcome"] == "ok"
    messages = [record.getMessage() for record in lines.records if record.name == "archon.calls"]
    assert messages[0].startswith("model m-1: ok in ")
    assert messages[0].endswith(" s, 120 tokens in, 40 out, $0.001500")
    assert SECRET not in str([vars(record) for record in lines.records])


async def test_each_try_of_a_model_call_has_a_line(
    lines: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_call, "pause_before", lambda *_: 0.0)
    await Agent("a", model=ScriptedModel([Unavailable(SECRET), says("yes")])).run_async("?")
    failed, made = of_calls(lines.records)
    assert (failed["outcome"], failed["reason"]) == ("failed", "UNAVAILABLE")
    assert "input_tokens" not in failed
    assert made["outcome"] == "ok"


async def test_a_failed_tool_call_has_its_reason_and_no_message(lines: pytest.LogCaptureFixture) -> None:
    engine = ToolExecutionEngine(ToolRegistry([broken]))
    assert not (await engine.execute_tool_call("broken", {"text": SECRET})).ok
    (call,) = of_calls(lines.records)
    assert call == {"agent": "", "tool": "broken", "outcome": "failed", "reason": call["reason"]}
    assert call["reason"]
    assert SECRET not in next(record.getMessage() for record in lines.records if record.name == "archon.calls")


async def test_a_reason_that_a_tool_wrote_itself_is_left_out(lines: pytest.LogCaptureFixture) -> None:
    @tool
    def free() -> ToolResult:
        """Fails in its own words."""
        return ToolResult.error("no", {"code": "x", "reason": SECRET, "kind": SECRET})

    await ToolExecutionEngine(ToolRegistry([free])).execute_tool_call("free", {})
    (call,) = of_calls(lines.records)
    assert call["outcome"] == "failed"
    assert SECRET not in str(call)


async def test_cancelled_calls_are_logged_as_cancelled(lines: pytest.LogCaptureFixture) -> None:
    began = asyncio.Event()

    @tool
    async def wait() -> str:
        """Waits."""
        began.set()
        await asyncio.Event().wait()
        return ""

    agent = Agent("a", model=ScriptedModel([says("", ToolCall("1", "wait", "{}"))]), tools=[wait])
    run = asyncio.create_task(agent.run_async("?"))
    await began.wait()
    run.cancel()
    await asyncio.wait([run])
    assert [call["outcome"] for call in of_calls(lines.records)] == ["ok", "cancelled"]


async def test_the_call_that_writes_a_summary_has_a_line(lines: pytest.LogCaptureFixture) -> None:
    agent = Agent("a", model=ScriptedModel([says("one"), says("two"), says("a summary")]))
    compaction = ContextCompactionMiddleware(compaction_strategy="summarisation", window_size=1)
    await agent.run_async("first")
    await agent.run_async("second")
    await compaction.compact(agent)
    assert [call["outcome"] for call in of_calls(lines.records)] == ["ok"] * 3
    assert isinstance(agent.history[0], ChatMessage)


async def test_below_the_level_no_line_is_made(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    await Agent("a", model=ScriptedModel([says("yes")])).run_async("?")
    assert of_calls(caplog.records) == []
