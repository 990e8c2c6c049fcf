"""Examples of agents with a long-term memory, one per function. `python examples/agent_memory.py` runs all of them,
without a network: scripted models answer from the messages that they get."""

from __future__ import annotations

import asyncio
import tempfile
from functools import partial
from pathlib import Path

from archon_mesh.agent import Agent
from archon_mesh.llm import ModelRequest, ScriptedModel
from archon_mesh.memory.automatic import MemoryMiddleware, MemorySettings, open_memory
from archon_mesh.memory.long_term import LongTermMemory, Outbox, SqliteLongTermStore


def booking_clerk(request: ModelRequest) -> str:
    """Books a seat by what the messages before the query say."""
    known = " ".join(message.content for message in request.messages[:-1])
    return f"Booked: a {'window' if 'window seat' in known else 'free'} seat."


async def preferences() -> list[str]:
    """A preference told once holds in every later run of that user, whatever the words of its query."""
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteLongTermStore(Path(folder) / "memory.db")
        async with LongTermMemory(store, outbox=Outbox(Path(folder) / "outbox.db")) as memory:
            answers = []
            for user, query in (
                ("ana", "I only fly with window seats."),
                ("ana", "Take me to Oslo."),
                ("ben", "Take me to Oslo."),
            ):
                agent = Agent("clerk", model=ScriptedModel(booking_clerk), user_id=user)
                agent.use(MemoryMiddleware(memory))
                answers.append(await agent.run_async(query))
            return answers


async def compression() -> str:
    """The oldest turns become one message before the window is full, and their summary is stored in the memory."""
    with tempfile.TemporaryDirectory() as folder:
        memory = MemoryMiddleware(
            partial(open_memory, {"ARCHON_HOME": folder}), MemorySettings(budget=2_000, working_memory=True)
        )
        agent = Agent("clerk", user_id="ana", model=ScriptedModel(lambda request: "I see. " * 20))
        agent.use(memory.compaction(max_context_tokens=2_000, threshold=0.7), memory)
        async with agent:
            for number in range(40):
                await agent.run_async(f"Invoice {number} is due in {number + 2} days.")
            return agent.history[0].content


if __name__ == "__main__":
    for example in (preferences, compression):
        print(f"== {example.__name__}\n{asyncio.run(example())}")  # noqa: T201
