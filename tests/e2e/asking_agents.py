"""`python -m tests.e2e.asking_agents` serves until a signal the roles clerk and painter, which ask a question, and
the role author, whose answers a person reviews by a rule of the shared mesh."""

from __future__ import annotations

import asyncio
import sys
from contextlib import AsyncExitStack

from archon import AgentServer, Question, TaskContext
from archon.server import signalled

ASKING = ("clerk", "painter")
WRITING = "author"


async def ask(task: TaskContext) -> str | Question:
    """Saves a checkpoint and asks once; answers with what it was told."""
    if not task.inputs:
        task.save(b"begun")
        return Question(f"Which colour\n  for {task.text}?", checkpoint=b"page 7")
    return f"{task.input_text} on {task.checkpoint.decode()}, attempt {task.attempt}"


async def write(task: TaskContext) -> str:
    """Answers at once."""
    return f"draft about {task.text}"


async def main() -> None:
    """Serves until a signal."""
    stop = signalled()
    async with AsyncExitStack() as stack:
        for role in (*ASKING, WRITING):
            agent = AgentServer(role)
            agent.task(write if role == WRITING else ask)
            await stack.enter_async_context(agent)
        await stop.wait()


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
