"""Budget and permission middlewares."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from archon.errors import BudgetExhausted, InvalidArgument, Unavailable
from archon_mesh.agent import Agent, HookContext, Middleware
from archon_mesh.agent.hooks.limits import BudgetMiddleware, PermissionMiddleware
from archon_mesh.core.messages import ToolCall
from archon_mesh.llm import ModelChunk, ModelReply, ModelRequest, ScriptedModel, Usage, retry
from archon_mesh.llm.prices import OUTPUT_TOKENS, Price
from archon_mesh.tools import tool
from tests.fixtures.scripted_model import says


@tool
def look(what: str) -> str:
    """Looks."""
    return f"seen {what}"


def call(what: str) -> Any:
    return says("", ToolCall("c", "look", f'{{"what": "{what}"}}'))


async def test_call_that_may_exceed_the_budget_is_not_made() -> None:
    model = ScriptedModel([call("a"), call("b"), says("never")])
    budget = BudgetMiddleware(max_tokens=OUTPUT_TOKENS + 200)
    with pytest.raises(BudgetExhausted, match=r"1,004 tokens left of 1,224|1,114 tokens left of 1,224"):
        await Agent("a", model=model, tools=[look], middlewares=[budget]).run_async("?")
    assert len(model.requests) < 3


async def test_budget_counts_all_calls_of_a_run_including_sub_agents() -> None:
    model = ScriptedModel([says("x"), says("y")])
    budget = BudgetMiddleware(max_model_calls=2)
    inner = Agent("poet", model=model, middlewares=[budget])
    ask = says("", ToolCall("1", "poet", '{"task": "go"}'))
    lead = Agent("lead", model=ScriptedModel([ask, says("never")]), sub_agents=[inner], middlewares=[budget])
    with pytest.raises(BudgetExhausted, match="all 2 model calls are used"):
        await lead.run_async("?")
    assert await inner.run_async("again") == "y"


async def test_unused_reservation_is_released_even_after_a_failure() -> None:
    model = ScriptedModel([Unavailable("down"), *(says("ok") for _ in range(5))])
    agent = Agent("a", model=model, retries=0, middlewares=[BudgetMiddleware(max_tokens=OUTPUT_TOKENS + 200)])
    with pytest.raises(Unavailable):
        await agent.run_async("1")
    for number in range(5):
        assert await agent.run_async(str(number)) == "ok"


async def test_a_try_that_failed_while_the_model_replied_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "BASE", 0.001)

    class Breaking(ScriptedModel):
        """Breaks off its first reply."""

        async def stream(self, request: ModelRequest) -> AsyncIterator[ModelChunk]:
            if not self.requests:
                self.requests.append(request)
                yield ModelChunk("x" * 800)
                raise Unavailable("cut off")
            async for chunk in super().stream(request):
                yield chunk

    model = Breaking([call("a"), says("never")])
    budget = BudgetMiddleware(max_tokens=OUTPUT_TOKENS + 200)
    with pytest.raises(BudgetExhausted):
        await Agent("a", model=model, tools=[look], retries=1, middlewares=[budget]).run_async("?")
    assert model.remaining == 1


class PricedModel(ScriptedModel):
    """A scripted model that costs a dollar per million tokens."""

    price = Price(1.0, 1.0, 1.0, 1.0)


async def test_call_that_may_exceed_the_cost_is_not_made() -> None:
    reply = ModelReply("ok", (), Usage(100, 10, cost_micro_usd=110), "scripted", "stop")
    model = PricedModel([reply, reply])
    agent = Agent("a", model=model, max_tokens=200, middlewares=[BudgetMiddleware(max_cost=0.000_300)])
    assert await agent.run_async("?") == "ok"
    assert await agent.forked().run_async("?") == "ok"
    with pytest.raises(BudgetExhausted, match=r"\$0.000300 left of \$0.000300, \$0.000602 needed"):
        await agent.forked().run_async("?" * 1_600)
    assert len(model.requests) == 2


async def test_forbidden_tool_is_not_called_and_is_an_error_result() -> None:
    async def allow(hook: HookContext) -> bool | str:
        return "that is private" if hook.arguments["what"] == "diary" else hook.arguments["what"] != "safe"

    agent = Agent(
        "a",
        model=ScriptedModel([call("diary"), call("safe"), call("door"), says("done")]),
        tools=[look],
        middlewares=[PermissionMiddleware(allow)],
    )
    assert await agent.run_async("?") == "done"
    results = [message.content for message in agent.history if message.role == "tool"]
    assert results[0] == "Error PERMISSION_DENIED (PERMISSION_DENIED): that is private"
    assert results[1] == "Error PERMISSION_DENIED (PERMISSION_DENIED): permission denied for tool look"
    assert results[2] == "seen door"


async def test_the_time_of_an_agent_ends_what_is_in_progress() -> None:
    ended = asyncio.Event()

    class Silent(ScriptedModel):
        async def generate(self, request: ModelRequest) -> ModelReply:
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()
            raise AssertionError

    agent = Agent("a", model=Silent(), middlewares=[BudgetMiddleware(max_seconds=0.05)])
    with pytest.raises(BudgetExhausted, match=r"the 0\.05 s of a are used"):
        await agent.run_async("?")
    assert ended.is_set()


async def test_a_time_out_of_something_else_is_not_taken_for_the_time_of_the_agent() -> None:
    class Late(Middleware):
        async def wrap_query(self, *_: Any) -> str:
            raise TimeoutError("something else")

    agent = Agent("a", model=ScriptedModel(), middlewares=[BudgetMiddleware(max_seconds=60), Late()])
    with pytest.raises(Exception, match="something else"):
        await agent.run_async("?")


WRONG: list[dict[str, Any]] = [{}, {"max_tokens": 0}, {"max_model_calls": -1}, {"max_cost": 0.0}, {"max_seconds": 0.0}]


@pytest.mark.parametrize("wrong", WRONG)
def test_empty_budget_is_rejected(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        BudgetMiddleware(**wrong)
