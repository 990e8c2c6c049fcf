"""python -m tests.bench.agent_loop: what the agent runtime adds to each iteration, over a loop written by hand in the same
run: ten hooks and three tools; and all of it with a session store, over a model that takes no time."""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from archon_mesh.agent import Agent, HookContext, Middleware
from archon_mesh.core.messages import ChatMessage, ToolCall
from archon_mesh.llm import ModelChunk, ModelReply, ModelRequest, Usage
from archon_mesh.memory import SessionManager
from archon_mesh.tools import tool

ITERATIONS = 10
RUNS = 60
HOOKS_AIM = 1.0
WHOLE_AIM = 20.0
"""Milliseconds an iteration."""


@tool
async def add(a: int, b: int) -> int:
    """Adds."""
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
            ToolCall(f"a{made}", "add", '{"a": 1, "b": 2}'),
            ToolCall(f"b{made}", "upper", '{"text": "hello"}'),
            ToolCall(f"c{made}", "count", '{"text": "hello"}'),
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


async def timed(work: Callable[[], Awaitable[None]]) -> float:
    """Milliseconds an iteration."""
    began = time.perf_counter()
    await work()
    return (time.perf_counter() - began) / ITERATIONS * 1e3


async def measure(runs: int) -> dict[str, float]:
    """Medians over interleaved rounds."""
    with tempfile.TemporaryDirectory() as folder:
        sessions = SessionManager(str(Path(folder) / "sessions.db"))

        async def whole() -> None:
            hooks = [Watches() for _ in range(5)]
            tools = [add, upper, count]
            agent = Agent("a", model=Model(), tools=tools, middlewares=hooks, session_manager=sessions, user_id="me")
            await agent.run_async("go", event_handlers=[lambda event: None])

        kinds = {"by hand": by_hand, "ten hooks, three tools": with_hooks, "with events and a session store": whole}
        seen: dict[str, list[float]] = {name: [] for name in kinds}
        for number in range(runs):
            for name, work in kinds.items():
                took = await timed(work)
                if number >= 5:  # warm
                    seen[name].append(took)
        await sessions.close()
    return {name: statistics.median(times) for name, times in seen.items()}


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS)
    figures = asyncio.run(measure(parser.parse_args().runs))
    table = Table("an iteration", "ms", "over the loop by hand")
    for name, took in figures.items():
        table.add_row(name, f"{took:.3f}", f"{took - figures['by hand']:+.3f}")
    console = Console(width=120)
    console.print(table)
    console.print(
        f"aims: ten hooks and three tools add at most {HOOKS_AIM} ms, all of it takes less than {WHOLE_AIM} ms"
    )


if __name__ == "__main__":
    main()
