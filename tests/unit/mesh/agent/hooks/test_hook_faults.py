"""Hooks that wrap the model and its text, and hooks that raise or return an illegal decision."""

from __future__ import annotations

from typing import Any

import pytest

from archon_mesh.agent import (
    HookContext,
    HookDecision,
    HookError,
    HookEvent,
    Middleware,
    ModelParams,
    fail,
    go_on,
    retry,
    stop,
)
from archon_mesh.llm import ModelReply
from tests.fixtures.scripted_model import says
from tests.unit.mesh.agent.hooks.test_hooks import CONTINUE, call, new_agent


@pytest.mark.parametrize("event", [event for event in HookEvent if event is not HookEvent.TOOL_ERROR])
async def test_hook_that_raises_fails_the_run_and_is_named(event: HookEvent) -> None:
    def raises(self: Any, *args: Any) -> None:
        raise KeyError("missing")

    broken = type("Broken", (Middleware,), {event.value: raises})()
    agent = new_agent(call(), says("2"), middlewares=[broken])
    with pytest.raises(HookError, match=rf"Broken\.{event} raised KeyError: 'missing'"):
        await agent.run_async("?")
    assert await new_agent(says("fine")).run_async("?") == "fine"


async def test_illegal_decision_is_an_error_that_names_the_middleware() -> None:
    class Wrong(Middleware):
        def before_model(self, hook: HookContext) -> Any:
            return retry()

        def query_start(self, hook: HookContext) -> Any:
            return "a text" if hook.value == "text" else None

    agent = new_agent(middlewares=[Wrong()])
    with pytest.raises(HookError, match=r"Wrong\.before_model: before_model: illegal decision RETRY"):
        await agent.run_async("?")
    with pytest.raises(HookError, match=r"Wrong\.query_start returned str"):
        await agent.run_async("text")


async def test_first_wrapper_is_outermost_and_may_call_repeatedly() -> None:
    order: list[str] = []

    class Around(Middleware):
        def __init__(self, name: str, times: int = 1) -> None:
            self.label, self.times = name, times

        async def wrap_model_call(self, params: ModelParams, call: Any) -> ModelReply:
            order.append(f"{self.label} in")
            replies: list[ModelReply] = [await call(params) for _ in range(self.times)]
            order.append(f"{self.label} out")
            return replies[-1]

    agent = new_agent(says("1"), says("2"), middlewares=[Around("outer"), Around("inner", 2)])
    assert await agent.run_async("?") == "2"
    assert order == ["outer in", "inner in", "inner out", "outer out"]


async def test_wrapper_that_raises_is_named() -> None:
    class Broken(Middleware):
        async def wrap_model_call(self, params: ModelParams, call: Any) -> ModelReply:
            raise ZeroDivisionError("oh")

    with pytest.raises(HookError, match=r"Broken\.wrap_model_call raised ZeroDivisionError: oh"):
        await new_agent(middlewares=[Broken()]).run_async("?")


async def test_chunk_hooks_change_text_before_event_handlers_see_it() -> None:
    class Mask(Middleware):
        def stream_chunk(self, chunk: str, params: ModelParams) -> str:
            return chunk.replace("secret", "***")

    deltas: list[str] = []
    agent = new_agent(says("a secret"), middlewares=[Mask()])
    agent.on("stream_chunk").handle(CONTINUE, lambda hook: hook.value.upper())
    answer = await agent.run_async("?", None, [lambda event: deltas.append(getattr(event, "delta", ""))])
    assert answer == "A ***"
    assert "".join(deltas) == "A ***"


async def test_outcome_helpers_return_their_decisions() -> None:
    assert (go_on("x").decision, retry().decision, stop("x").decision, fail("x").decision) == tuple(HookDecision)


async def test_system_exit_in_a_hook_does_not_end_the_process() -> None:
    def leave(*_: Any) -> None:
        raise SystemExit(3)

    class Leaves(Middleware):
        def before_model(self, hook: HookContext) -> Any:
            leave()

    with pytest.raises(HookError, match=r"Leaves\.before_model raised SystemExit: 3"):
        await new_agent(middlewares=[Leaves()]).run_async("?")
    assert await new_agent(says("ok")).on("query_end").handle(effects=leave).run_async("?", None, [leave]) == "ok"
