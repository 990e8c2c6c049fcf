"""Examples of the agent runtime, one per function. `python examples/agents.py` runs all of them, without a network."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

from archon_mesh.agent import (
    Agent,
    AgentEvent,
    AgentFactory,
    AgentState,
    ContextCompactionMiddleware,
    HookContext,
    Middleware,
    ModelParams,
    TracingMiddleware,
    call_sub_agent,
    get_context,
    stop,
    subagent,
)
from archon_mesh.llm import ScriptedModel
from archon_mesh.memory import EpisodicMemory, SessionManager, SharedMemoryGraph, WorkingMemory
from archon_mesh.tools import tool


@tool
def word_count(text: str) -> int:
    """Counts the words of a text."""
    return len(text.split())


async def tools() -> str:
    """A function is a tool: its signature is the schema, its docstring tells the model when to use it."""
    agent = Agent("counter", system_prompt="You count.", tools=[word_count])
    return await agent.run_async("How many words has this?")


@tool
async def remember(note: str, agent_state: AgentState) -> str:
    """Keeps a note for all agents of this run. No model sees the parameter `agent_state`."""
    agent_state.global_storage.compute("notes", lambda notes: [*notes, note], [])
    return f"{get_context().agent_name} has noted it"


async def state() -> list[str]:
    """A tool can access the state of its agent, and a storage that all agents of the run share."""
    agent = Agent("keeper", tools=[remember])
    await agent.run_async("the door is open", {"user": "me"})
    assert agent.state is not None
    notes: list[str] = agent.state.global_storage.get("notes")
    return notes


class Review(BaseModel):
    """What a reader thinks of a text."""

    stars: int = Field(ge=1, le=5)
    reason: str


async def typed() -> Review:
    """With an output, an agent answers with an object. What does not match goes back to the model, once."""
    model = ScriptedModel(['{"stars": 7, "reason": "I like it."}', '{"stars": 5, "reason": "I like it."}'])
    return await Agent("reader", model=model, output=Review).run_async("What do you think of it?")


async def hooks() -> str:
    """A hook decides: continue, retry, stop with a value, or fail. Registering an illegal decision raises."""
    agent = Agent("careful", tools=[word_count])
    agent.on("before_tool").when(lambda hook: "secret" in str(hook.arguments)).handle("stop", "that is not for you")
    agent.on("query_end").handle("continue", lambda hook: f"{hook.value}\n-- {hook.agent.name}")
    return await agent.run_async("Count this secret.")


class Patient(Middleware):
    """A middleware has several hooks. This one calls the model again after a timeout."""

    async def wrap_model_call(self, params: ModelParams, call: Any) -> Any:
        """Wraps the model call."""
        try:
            return await call(params)
        except TimeoutError:
            return await call(params)

    def query_start(self, hook: HookContext) -> Any:
        """Answers an empty query without a model call."""
        return None if hook.value.strip() else stop("Say something.")


async def middlewares() -> str:
    """Compaction, shared memory and tasks of the mesh are middlewares like your own."""
    compaction = ContextCompactionMiddleware(100_000, compaction_strategy="tool_result_compaction")
    return await Agent("patient", middlewares=[Patient(), compaction]).run_async("   ")


async def events() -> list[str]:
    """Events for a front end, with AG-UI's names, also those of sub-agents."""
    seen: list[AgentEvent] = []
    await Agent("talker", tools=[word_count]).run_async("How many?", event_handlers=[seen.append])
    return [event.type for event in seen]


async def pausing() -> list[str]:
    """A paused agent waits between the steps of its run; `state.phase` says where."""
    agent = Agent("patient")
    agent.pause()
    running = asyncio.create_task(agent.run_async("Anything new?"))
    await asyncio.sleep(0.01)
    assert agent.state is not None
    held = agent.state.phase
    agent.resume()
    await running
    return [held, agent.state.phase]


@subagent("poet", "Writes verses.", stateless=True)
class Poet(Agent):
    """The decorator sets how instances of the class appear as sub-agents."""


@tool
async def delegate() -> str:
    """Code can call a sub-agent by its key."""
    return await call_sub_agent("poet", "A line about the sea.")


async def sub_agents() -> list[str]:
    """Agents as tools of another agent. `RemoteAgent("designer")` would be a role of the mesh."""
    lead = Agent("lead", tools=[delegate], sub_agents=[Poet("verse writer", system_prompt="You rhyme.")])
    await lead.run_async("Something about the sea.")
    return [message.content for message in lead.history if message.role == "tool"]


async def factory() -> list[str]:
    """Creates agents by registered name; they share a memory graph."""
    graph = SharedMemoryGraph()
    agents = AgentFactory({"max_iterations": 5}).with_memory_graph(graph)
    agents.register("poet", Poet).register("lead", Agent, defaults={"system_prompt": "You lead."})
    for name in ("poet", "lead"):
        graph.add_agent(name)
    graph.add_edge("poet", "lead")
    lead = agents.create("lead", subagents=["poet"], subagent_config={"poet": {"system_prompt": "You rhyme."}})
    await lead.run_async("A verse, please.")
    return [item.source_id for item in graph.pull_for("lead")]


async def sessions() -> list[str]:
    """A history that survives restarts, in a file or in PostgreSQL."""
    with tempfile.TemporaryDirectory() as folder:
        for line in ("My name is Ada.", "What is my name?"):
            manager = SessionManager(str(Path(folder) / "sessions.db"))
            agent = Agent("clerk", session_manager=manager, user_id="ada", session_id="first")
            await agent.run_async(line)
            await manager.close()
        memory = EpisodicMemory(SessionManager(str(Path(folder) / "sessions.db")), "ada", "first", "clerk")
        return [message.content for message in await memory.get_messages() if message.role == "user"]


async def working() -> dict[str, Any]:
    """JSON values of a task, each with a version for conditional writes.

    For a run in the mesh, use `archon.memory.WorkingMemoryClient`.
    """
    memory = WorkingMemory()
    version = memory.set("draft", {"lines": 1})
    memory.set("draft", {"lines": 2}, expected_version=version)
    memory.update({"reviewer": "ada"})
    return memory.to_dict()


async def goals() -> str:
    """A goal check sends an answer back until it reaches the goal."""

    def is_short(state: AgentState, answer: str | None) -> bool | str:
        return answer is not None and (len(answer.split()) < 6 or "use fewer than 6 words")

    model = ScriptedModel(["It is a rather long answer, as you see.", "Short."])
    return await Agent("clerk", model=model, goal_check=is_short).run_async("What is it?")


async def tracing() -> str:
    """A span for each run, model call and tool call, of this agent and of its sub-agents."""
    agent = Agent("counter", tools=[word_count]).use(TracingMiddleware())
    return await agent.run_async("How many words has this?")


async def main() -> None:
    """Runs all examples."""
    examples = (
        tools,
        state,
        hooks,
        middlewares,
        events,
        pausing,
        sub_agents,
        factory,
        sessions,
        working,
        goals,
        tracing,
    )
    for example in examples:
        print(f"== {example.__name__}\n{await example()}")  # noqa: T201


if __name__ == "__main__":
    asyncio.run(main())
