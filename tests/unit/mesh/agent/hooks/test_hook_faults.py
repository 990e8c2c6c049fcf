"""Hooks around the model and its text, and what becomes of hooks that raise or decide what they may not."""

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
from tests.unit.mesh.agent.hooks.test_hooks import CONTINUE, agent, call


@pytest.mark.parametrize("event", [one for one in HookEvent if one is not HookEvent.TOOL_ERROR])
async def test_hook_that_raises_fails_the_run_and_is_named(event: HookEvent) -> None:
    def raises(self: Any, *given: Any) -> None:
        raise KeyError("missing")

    broken = type("Broken", (Middleware,), {event.value: raises})()
    one = agent(call(), says("2"), middlewares=[broken])
    with pytest.raises(HookError, match=rf"Broken\.{event} raised KeyError: 'missing'"):
        await one.run_async("?")
    assert await agent(says("fine")).run_async("?") == "fine"


async def test_illegal_decision_is_an_error_that_names_the_middleware() -> None:
    class Wrong(Middleware):
        def before_model(self, hook: HookContext) -> Any:
            return retry()

        def query_start(self, hook: HookContext) -> Any:
            return "a text" if hook.value == "text" else None

    one = agent(middlewares=[Wrong()])
    with pytest.raises(HookError, match=r"Wrong\.before_model: before_model: illegal decision RETRY"):
        await one.run_async("?")
    with pytest.raises(HookError, match=r"Wrong\.query_start returned str"):
        await one.run_async("text")


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

    one = agent(says("1"), says("2"), middlewares=[Around("outer"), Around("inner", 2)])
    assert await one.run_async("?") == "2"
    assert order == ["outer in", "inner in", "inner out", "outer out"]


async def test_wrapper_that_raises_is_named() -> None:
    class Broken(Middleware):
        async def wrap_model_call(self, params: ModelParams, call: Any) -> ModelReply:
            raise ZeroDivisionError("oh")

    with pytest.raises(HookError, match=r"Broken\.wrap_model_call raised ZeroDivisionError: oh"):
        await agent(middlewares=[Broken()]).run_async("?")


async def test_chunk_hooks_change_text_before_event_handlers_see_it() -> None:
    class Mask(Middleware):
        def stream_chunk(self, chunk: str, params: ModelParams) -> str:
            return chunk.replace("secret", "***")

    told: list[str] = []
    one = agent(says("a secret"), middlewares=[Mask()])
    one.on("stream_chunk").handle(CONTINUE, lambda hook: hook.value.upper())
    answer = await one.run_async("?", None, [lambda event: told.append(getattr(event, "delta", ""))])
    assert answer == "A ***"
    assert "".join(told) == "A ***"


async def test_outcome_helpers_return_their_decisions() -> None:
    assert (go_on("x").decision, retry().decision, stop("x").decision, fail("x").decision) == tuple(HookDecision)


async def test_system_exit_in_a_hook_does_not_end_the_process() -> None:
    def leave(*_: Any) -> None:
        raise SystemExit(3)

    class Leaves(Middleware):
        def before_model(self, hook: HookContext) -> Any:
            leave()

    with pytest.raises(HookError, match=r"Leaves\.before_model raised SystemExit: 3"):
        await agent(middlewares=[Leaves()]).run_async("?")
    assert await agent(says("ok")).on("query_end").handle(effects=leave).run_async("?", None, [leave]) == "ok"
