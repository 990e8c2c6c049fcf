"""Hooks: the decisions that each point allows, their order and their effects."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from archon.errors import Internal, InvalidArgument, PermissionDenied
from archon_mesh.agent import (
    Agent,
    HookContext,
    HookDecision,
    HookEvent,
    Middleware,
    stop,
)
from archon_mesh.agent.hooks.points import LEGAL
from archon_mesh.core.messages import ChatMessage, ToolCall
from archon_mesh.llm import ModelReply, ScriptedModel
from archon_mesh.tools import ToolResult, tool
from tests.fixtures.scripted_model import says

CONTINUE, RETRY, STOP, FAIL = HookDecision


@tool
def double(n: int) -> int:
    """Doubles a number."""
    return 2 * n


def call(n: int = 1) -> ModelReply:
    return says("", ToolCall("c", "double", f'{{"n": {n}}}'))


def new_agent(*replies: Any, **more: Any) -> Agent:
    return Agent("a", model=ScriptedModel(replies), tools=[double], **more)


def tool_texts(agent: Agent) -> list[str]:
    return [message.content for message in agent.history if message.role == "tool"]


async def test_all_points_are_passed_in_order() -> None:
    passed: list[str] = []

    class All(Middleware):
        pass

    def watching(event: str) -> Callable[..., None]:
        return lambda self, *args: passed.append(event)

    for event in HookEvent:
        setattr(All, event.value, watching(event.value))
    await new_agent(call(), says("2"), middlewares=[All()]).run_async("?")
    assert passed == [
        "query_start",
        "before_agent",
        "before_model",
        *["stream_chunk"] * 2,
        "after_model",
        "before_tool",
        "after_tool",
        "before_model",
        "stream_chunk",
        "after_model",
        "before_final_response",
        "after_agent",
        "query_end",
    ]


@pytest.mark.parametrize("event", HookEvent)
@pytest.mark.parametrize("decision", HookDecision)
def test_illegal_decision_is_rejected_at_registration(event: HookEvent, decision: HookDecision) -> None:
    handler = new_agent().on(event)
    if decision is FAIL:
        handler.handle(FAIL, "why")
        with pytest.raises(InvalidArgument, match="FAIL takes an error or its message"):
            handler.handle(FAIL)
        return
    if decision not in LEGAL[event]:
        with pytest.raises(InvalidArgument, match=f"{event}: illegal decision {decision.name}"):
            handler.handle(decision)
        return
    kinds = LEGAL[event][decision]
    if kinds is None:
        handler.handle(decision)
        for value in ("a value", lambda hook: "one that is computed"):
            with pytest.raises(InvalidArgument, match="takes no value"):
                handler.handle(decision, value)
        return
    samples = {str: "text", dict: {}, ChatMessage: ChatMessage("assistant"), ToolResult: ToolResult()}
    for kind in kinds:
        handler.handle(decision, samples[kind])
    handler.handle(decision, lambda hook: "computed")
    with pytest.raises(InvalidArgument, match=" takes "):
        handler.handle(decision, 3)
    if decision is STOP and event is not HookEvent.BEFORE_FINAL_RESPONSE:
        with pytest.raises(InvalidArgument, match="STOP needs a value"):
            handler.handle(STOP)


def test_unknown_event_is_rejected() -> None:
    with pytest.raises(ValueError, match="before_lunch"):
        new_agent().on("before_lunch")


async def test_query_start_may_replace_or_answer_the_query() -> None:
    agent = new_agent(says("hello"))
    agent.on("query_start").when(lambda hook: hook.value == "?").handle(CONTINUE, "a better question")
    assert await agent.run_async("?") == "hello"
    assert agent.history[0].content == "a better question"
    agent.on("query_start").handle(STOP, lambda hook: f"cached: {hook.value}")
    assert await agent.run_async("again") == "cached: again"


async def test_before_model_may_add_messages_or_stop_the_run() -> None:
    class Adds(Middleware):
        def before_model(self, hook: HookContext) -> Any:
            assert hook.params is not None
            hook.params.messages.append(ChatMessage("system", "be brief"))
            return stop(ChatMessage("assistant", "no need")) if hook.iteration == 2 else None

    model = ScriptedModel([call()])
    agent = Agent("a", model=model, tools=[double], middlewares=[Adds()])
    assert await agent.run_async("?") == "no need"
    assert model.requests[0].messages[-1].content == "be brief"
    assert "be brief" not in [message.content for message in agent.history]


async def test_after_model_may_replace_retry_or_stop() -> None:
    agent = new_agent(says("first"), says("second"))
    agent.on("after_model").when(lambda hook: hook.value == "first").handle(RETRY)
    assert await agent.run_async("?") == "second"
    assert [message.content for message in agent.history] == ["?", "second"]
    second_agent = new_agent(says("rough"))
    second_agent.on("after_model").handle(CONTINUE, ChatMessage("assistant", "smooth"))
    assert await second_agent.run_async("?") == "smooth"
    third_agent = new_agent(call())
    third_agent.on("after_model").handle(STOP, "enough")
    assert await third_agent.run_async("?") == "enough"


async def test_before_tool_may_change_arguments_or_give_the_result() -> None:
    agent = new_agent(call(4), call(7), says("done"))
    agent.on("before_tool").when(lambda hook: hook.arguments == {"n": 4}).handle(CONTINUE, {"n": 5})
    agent.on("before_tool").when(lambda hook: hook.arguments == {"n": 7}).handle(STOP, ToolResult.error("not allowed"))
    assert await agent.run_async("?") == "done"
    assert tool_texts(agent) == ["10", "Error UNKNOWN (UNKNOWN): not allowed"]


async def test_failed_tool_is_retried_at_most_three_times() -> None:
    tries: list[int] = []

    @tool
    def flaky(succeed_at: int) -> str:
        """Fails until the given call."""
        tries.append(1)
        if len(tries) < succeed_at:
            raise ValueError("not yet")
        return "at last"

    for succeed_at, expected in ((3, 3), (9, 4)):
        tries.clear()
        reply = says("", ToolCall("c", "flaky", f'{{"succeed_at": {succeed_at}}}'))
        agent = Agent("a", model=ScriptedModel([reply, says("done")]), tools=[flaky])
        agent.on("tool_error").handle(RETRY)
        await agent.run_async("?")
        assert len(tries) == expected
    assert tool_texts(agent) == ["Error UNKNOWN (UNKNOWN): ValueError: not yet"]


async def test_after_tool_may_replace_the_result_or_stop_the_run() -> None:
    agent = new_agent(call(1), call(2))
    agent.on("after_tool").when(lambda hook: hook.arguments == {"n": 1}).handle(CONTINUE, "two")
    agent.on("after_tool").when(lambda hook: hook.tool_result is not None and hook.tool_result.content == 4).handle(
        STOP, "it was four"
    )
    assert await agent.run_async("?") == "it was four"
    assert tool_texts(agent) == ["two", "4"]


async def test_before_final_response_may_replace_retry_or_accept() -> None:
    agent = new_agent(says("draft"), says("better"))
    agent.on("before_final_response").when(lambda hook: hook.value == "draft").handle(RETRY)
    agent.on("before_final_response").handle(CONTINUE, lambda hook: hook.value + "!")
    assert await agent.run_async("?") == "better!"
    assert [message.content for message in agent.history] == ["?", "draft", "better!"]


async def test_query_end_may_replace_the_answer() -> None:
    agent = new_agent(says("answer"))
    agent.on("after_agent").handle(CONTINUE, lambda hook: hook.value.upper())
    agent.on("query_end").handle(CONTINUE, lambda hook: f"<{hook.value}>")
    assert await agent.run_async("?") == "<ANSWER>"


async def test_hook_sees_earlier_changes_and_the_first_decision_wins() -> None:
    seen: list[HookContext] = []
    agent = new_agent(says("0"))
    for number in range(1, 4):
        agent.on("query_end").handle(CONTINUE, lambda hook, n=number: f"{hook.value}{n}", seen.append)
    assert await agent.run_async("?") == "0123"
    second_agent = new_agent()
    second_agent.on("query_start").handle(STOP, "first").on("query_start").handle(FAIL, "never asked")
    assert await second_agent.run_async("?") == "first"


async def test_conditions_may_be_async_and_effects_may_raise(
    caplog: pytest.LogCaptureFixture,
) -> None:
    done: list[str] = []

    async def holds(hook: HookContext) -> bool:
        return hook.value == "yes"

    async def effect(hook: HookContext) -> None:
        done.append(hook.value)

    def breaks(hook: HookContext) -> None:
        raise RuntimeError("the log is full")

    agent = new_agent(says("yes"))
    agent.on("query_end").when(holds).when(lambda hook: True).handle(CONTINUE, "no", [breaks, effect])
    agent.on("query_end").when(holds).handle(FAIL, "never: it is no more")
    with caplog.at_level(logging.ERROR):
        assert await agent.run_async("?") == "no"
    assert done == ["yes"]
    assert "an effect of the handler of query_end no. 1 raised RuntimeError" in caplog.text


async def test_hook_may_fail_the_run_with_an_error_or_a_message() -> None:
    agent = new_agent(says("x"), says("x"))
    agent.on("before_agent").when(lambda hook: not hook.agent.history).handle(FAIL, PermissionDenied("not for you"))
    with pytest.raises(PermissionDenied, match="not for you"):
        await agent.run_async("?")
    agent.on("before_agent").handle(FAIL, lambda hook: f"{hook.agent.name} is closed")
    agent.history.append(ChatMessage("user", "so that the first doesn't hold"))
    with pytest.raises(Internal, match="a is closed"):
        await agent.run_async("?")
