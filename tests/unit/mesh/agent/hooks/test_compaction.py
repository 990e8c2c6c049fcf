"""Compaction: when it runs, what it drops, and that no call is separated from its result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from archon.errors import InvalidArgument, Unavailable
from archon_mesh.agent import Agent, RunningAgent
from archon_mesh.agent.hooks.compaction import SUMMARY_PROMPT, ContextCompactionMiddleware
from archon_mesh.core.compaction import (
    broken_pairing,
    is_summary,
)
from archon_mesh.core.messages import ChatMessage, ToolCall
from archon_mesh.llm import ScriptedModel
from archon_mesh.tools import tool
from tests.fixtures.conversations import replied, user
from tests.fixtures.scripted_model import says


@tool
def look() -> str:
    """Looks."""
    return "seen " + "y" * 400


def looping(turns: int, **more: Any) -> tuple[Agent, ScriptedModel]:
    replies = [says("", ToolCall(f"c{n}", "look", "{}")) for n in range(turns)]
    model = ScriptedModel([*replies, says("done")])
    compaction = ContextCompactionMiddleware(**more)
    agent = Agent("a", system_prompt="Look.", model=model, tools=[look], middlewares=[compaction], max_repeats=0)
    return agent, model


@pytest.mark.parametrize("strategy", ["sliding_window", "tool_result_compaction"])
async def test_history_above_the_threshold_is_compacted(strategy: str) -> None:
    agent, model = looping(6, max_context_tokens=600, compaction_strategy=strategy)
    assert await agent.run_async("the query") == "done"
    sizes = [sum(len(message.content) for message in request.messages) // 4 for request in model.requests]
    assert max(sizes) <= 450
    for request in model.requests:
        assert request.messages[0].content == "Look."
        assert request.messages[1].content == "the query"
        assert broken_pairing(request.messages) == ""
    assert len(agent.history) < 14 or strategy == "tool_result_compaction"


async def test_history_below_the_threshold_is_unchanged() -> None:
    for more in ({"max_context_tokens": 100_000}, {"max_context_tokens": 10, "auto_compact": False}):
        agent, model = looping(4, **more)
        await agent.run_async("q")
        assert len(model.requests[-1].messages) == 2 + 8
    compaction = ContextCompactionMiddleware(window_size=1)
    await compaction.compact(agent)
    assert [message.content for message in agent.history] == ["q", "done"]


async def test_summary_replaces_older_rounds_and_keeps_facts() -> None:
    model = ScriptedModel([says("one"), says("two"), says("They talked."), says("three")])
    compaction = ContextCompactionMiddleware(60, compaction_strategy="summarisation", window_size=1)
    agent = Agent("a", model=model, middlewares=[compaction])
    await agent.run_async("My name is Ada Lovelace, my number is 555-0199. " + "x" * 60)
    await agent.run_async("And?")
    await agent.run_async("What is my number? " + "y" * 100)
    summary_request, last = model.requests[2], model.requests[3]
    assert summary_request.messages[0].content.startswith(SUMMARY_PROMPT)
    assert "assistant: one" in summary_request.messages[0].content
    assert is_summary(last.messages[0])
    assert "They talked." in last.messages[0].content
    assert "Ada Lovelace" in last.messages[0].content
    assert "0199" in last.messages[0].content
    assert last.messages[-1].content.startswith("What is my number?")


async def test_strategy_function_must_return_a_valid_conversation() -> None:
    async def last_only(messages: Sequence[ChatMessage], window: int) -> list[ChatMessage]:
        return [messages[0], *messages[-2:]]

    for strategy in (
        {"compaction_strategy": "custom", "custom_strategy": last_only},
        {"compaction_strategy": last_only},
    ):
        agent, model = looping(4, max_context_tokens=300, **strategy)
        assert await agent.run_async("q") == "done"
        assert [len(request.messages) for request in model.requests][-2:] == [4, 4]
    agent, _ = looping(4, max_context_tokens=300, compaction_strategy=last_only)
    assert await agent.run_async("q") == "done"
    agent, _ = looping(4, max_context_tokens=300, compaction_strategy=lambda messages, window: messages[-1:])
    with pytest.raises(InvalidArgument, match="returned an invalid conversation"):
        await agent.run_async("q")


@pytest.mark.parametrize(
    "wrong",
    [
        {"compaction_strategy": "magic"},
        {"compaction_strategy": "custom"},
        {"compaction_strategy": "custom", "custom_strategy": "no function"},
        {"custom_strategy": len},
        {"threshold": 0},
        {"window_size": 0},
        {"max_context_tokens": 0},
    ],
)
def test_invalid_settings_are_rejected(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        ContextCompactionMiddleware(**wrong)


async def summarised(model: ScriptedModel, **more: Any) -> Agent:
    """Returns an agent whose history of 14 rounds has been summarised in part."""
    compaction = ContextCompactionMiddleware(1_200, compaction_strategy="summarisation", **more)
    agent = Agent("a", model=model, middlewares=[compaction])
    agent.history.append(user("Never call Ada Lovelace before 09:30."))
    agent.history.extend(replied("I will not.", "c0"))
    for number in range(13):
        agent.history.extend([user(f"Question {number} " + "z" * 200), *replied(f"Answer {number}", f"c{number + 1}")])
    await agent.run_async("The last question")
    return agent


async def test_only_the_oldest_rounds_are_summarised() -> None:
    model = ScriptedModel([says("They talked."), says("done")])
    agent = await summarised(model)
    first, *rest = agent.history
    assert first.content.startswith("[Earlier conversation summarized: They talked.")
    assert "\n- Never call Ada Lovelace before 09:30.\n" in first.content
    assert [message.content[:11] for message in rest if message.role == "user"][-2:] == ["Question 12", "The last qu"]
    assert len([message for message in rest if message.role == "user"]) >= 3
    assert broken_pairing(agent.history) == ""


@pytest.mark.parametrize("failure", [Unavailable("down"), says("  ")])
async def test_a_summary_that_fails_becomes_an_extract(failure: Any) -> None:
    agent = await summarised(ScriptedModel([failure, says("done")]))
    assert agent.history[0].content.startswith("[Earlier conversation summarized: user: Never call Ada Lovelace")
    assert "Question 3" in agent.history[0].content


async def test_a_summary_is_handed_over_with_its_facts() -> None:
    kept: list[str] = []

    async def keep(agent: RunningAgent, text: str) -> None:
        kept.append(f"{agent.name}: {text}")
        raise Unavailable("the store is down")

    agent = await summarised(ScriptedModel([says("They talked."), says("done")]), on_summary=keep)
    assert len(kept) == 1
    assert kept[0].startswith("a: They talked.\n\nAlso said:\n- Never call Ada Lovelace before 09:30.")
    assert is_summary(agent.history[0])


async def test_a_summary_contains_the_earlier_one() -> None:
    model = ScriptedModel([says("They talked."), says("done"), says("They talked more."), says("done")])
    agent = await summarised(model)
    for number in range(20, 34):
        agent.history.extend([user(f"Question {number} " + "z" * 200), *replied(f"Answer {number}", f"d{number}")])
    await agent.run_async("And now?")
    assert "They talked." in model.requests[2].messages[0].content
    assert "Ada Lovelace" in agent.history[0].content
    assert sum(is_summary(message) for message in agent.history) == 1
