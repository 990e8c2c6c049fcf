"""python -m tests.bench.agent_loop: what the agent runtime adds to an iteration and to a tool call, over a loop written by
hand in the same run, with a model that takes no time."""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from archon_mesh.agent import Agent, HookContext, Middleware
from archon_mesh.core.messages import ChatMessage, ToolCall
from archon_mesh.llm import ModelChunk, ModelReply, ModelRequest, Usage
from archon_mesh.memory import SessionManager
from archon_mesh.tools import ToolExecutionEngine, ToolRegistry, tool

ITERATIONS = 10
RUNS = 60
CALLS = 200
ITERATION_AIM = 2.0
"""Milliseconds that the runtime may add to an iteration, with hooks, events and a session store."""

CALL_AIM = 1.0
"""Milliseconds that the tool engine may add to a call."""


@tool
async def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


@tool
def blocking(a: int, b: int) -> int:
    """Adds, on a thread."""
    return a + b


@tool
async def upper(text: str) -> str:
    """In capitals."""
    return text.upper()


@tool
async def count(text: str) -> int:
    """Counts."""
    return len(text)


class Model:
    """Takes no time: three calls in each reply but the last."""

    model = "instant"

    async def generate(self, request: ModelRequest) -> ModelReply:
        made = sum(message.role == "assistant" for message in request.messages)
        if made >= ITERATIONS - 1:
            return ModelReply("done", (), Usage(1, 1), self.model, "stop")
        calls = (
            ToolCall(f"a{made}", "add", f'{{"a": {made}, "b": 2}}'),
            ToolCall(f"b{made}", "upper", f'{{"text": "hello {made}"}}'),
            ToolCall(f"c{made}", "count", f'{{"text": "hello {made}"}}'),
        )
        return ModelReply("", calls, Usage(1, 1), self.model, "tool_calls")

    async def stream(self, request: ModelRequest) -> Any:
        yield ModelChunk(reply=await self.generate(request))

    async def close(self) -> None:
        """Nothing."""


class Watches(Middleware):
    """Two hooks; five of these are ten."""

    def before_model(self, hook: HookContext) -> None:
        """Looks."""

    async def after_tool(self, hook: HookContext) -> None:
        """Looks."""


async def by_hand() -> None:
    """What a good engineer would write for these three tools."""
    model, known = Model(), {"add": add.function, "upper": upper.function, "count": count.function}
    messages = [ChatMessage("system", "You count."), ChatMessage("user", "go")]
    while True:
        reply = await model.generate(ModelRequest(tuple(messages)))
        if not reply.tool_calls:
            return
        messages.append(ChatMessage("assistant", reply.text, tool_calls=reply.tool_calls))
        results = await asyncio.gather(
            *(known[call.name](**json.loads(call.arguments_json)) for call in reply.tool_calls)
        )
        for call, result in zip(reply.tool_calls, results, strict=True):
            messages.append(ChatMessage("tool", str(result), tool_call_id=call.id))


async def with_hooks() -> None:
    """The runtime, with ten hooks."""
    hooks = [Watches() for _ in range(5)]
    agent = Agent("a", system_prompt="You count.", model=Model(), tools=[add, upper, count], middlewares=hooks)
    await agent.run_async("go")


async def called_by_hand() -> None:
    """A coroutine."""
    for number in range(CALLS):
        await add.function(a=number, b=2)


async def called_on_a_thread() -> None:
    """A plain function, as asyncio runs it on a thread."""
    for number in range(CALLS):
        await asyncio.to_thread(blocking.function, a=number, b=2)


async def called_by_the_engine(name: str) -> None:
    """A call of the engine: permissions, validation, limits, circuit breaker, health."""
    engine = ToolExecutionEngine(ToolRegistry([add, blocking]))
    for number in range(CALLS):
        result = await engine.execute_tool_call(name, {"a": number, "b": 2})
        assert result.content == number + 2


async def timed(work: Callable[[], Awaitable[None]], times: int) -> float:
    """Returns milliseconds for each of `times` pieces of work."""
    began = time.perf_counter()
    await work()
    return (time.perf_counter() - began) / times * 1e3


async def measure_calls(runs: int) -> dict[str, float]:
    """Returns medians over interleaved rounds, in milliseconds per call."""
    kinds: dict[str, Callable[[], Awaitable[None]]] = {
        "coroutine, by hand": called_by_hand,
        "coroutine, by the engine": partial(called_by_the_engine, "add"),
        "plain function, by hand": called_on_a_thread,
        "plain function, by the engine": partial(called_by_the_engine, "blocking"),
    }
    return await medians(kinds, runs, CALLS)


async def measure(runs: int) -> dict[str, float]:
    """Returns medians over interleaved rounds, in milliseconds per iteration."""
    with tempfile.TemporaryDirectory() as folder:
        sessions = SessionManager(str(Path(folder) / "sessions.db"))

        async def whole() -> None:
            hooks = [Watches() for _ in range(5)]
            tools = [add, upper, count]
            agent = Agent("a", model=Model(), tools=tools, middlewares=hooks, session_manager=sessions, user_id="me")
            await agent.run_async("go", event_handlers=[lambda event: None])

        kinds = {"by hand": by_hand, "ten hooks, three tools": with_hooks, "with events and a session store": whole}
        figures = await medians(kinds, runs, ITERATIONS)
        await sessions.close()
    return figures


async def medians(kinds: Mapping[str, Callable[[], Awaitable[None]]], runs: int, times: int) -> dict[str, float]:
    """Returns the median of each kind of work."""
    seen: dict[str, list[float]] = {name: [] for name in kinds}
    for number in range(runs):
        for name, work in kinds.items():
            took = await timed(work, times)
            if number >= 5:  # warm
                seen[name].append(took)
    return {name: statistics.median(took) for name, took in seen.items()}


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS)
    runs = parser.parse_args().runs
    console = Console(width=120)
    figures = asyncio.run(measure(runs))
    table = Table("an iteration", "ms", "over the loop by hand")
    for name, took in figures.items():
        table.add_row(name, f"{took:.3f}", f"{took - figures['by hand']:+.3f}")
    console.print(table)
    calls = asyncio.run(measure_calls(runs))
    table = Table("a tool call", "ms", "over the call by hand")
    for name, took in calls.items():
        table.add_row(name, f"{took:.3f}", f"{took - calls[name.partition(',')[0] + ', by hand']:+.3f}")
    console.print(table)
    console.print(f"aims: at most {ITERATION_AIM} ms more per iteration, at most {CALL_AIM} ms more per tool call")


if __name__ == "__main__":
    main()
