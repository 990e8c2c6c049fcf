"""Tests of agents: a scripted model, one handler, a mesh in the test's event loop, a moved clock, and crashes."""

from __future__ import annotations

import asyncio
from pathlib import Path

from archon import AgentServer, Answer, TaskContext
from archon.client import answer_text
from archon.testing import FakeAgent, FakeOrchestrator
from archon.types import Part
from archon_mesh import Agent, ScriptedModel, tool
from archon_mesh.llm import ToolCall
from archon_services.testing import InProcessMesh


async def scripted() -> tuple[str, str]:
    @tool
    def population(city: str) -> int:
        """Says how many people live in a city."""
        return 545_000

    model = ScriptedModel([ToolCall("1", "population", '{"city": "Lisbon"}'), "545,000 people."])
    answer = await Agent("guide", model=model, tools=[population]).run_async("How many people live in Lisbon?")
    return answer, model.requests[1].messages[-1].content


async def one_handler() -> tuple[str, str, str | None]:
    async def cook(task: TaskContext) -> Answer:
        spice = await task.ask(f"Which spice for {task.context[0].text}?")
        picture = Part(url="https://example.org/soup.png", media_type="image/png")
        return Answer(f"soup with {spice}", parts=[picture])

    async with FakeAgent("cook", [cook]) as agent, FakeOrchestrator(agent.address) as peer:
        await peer.open()
        task = peer.ref("lunch")
        await peer.assign(task, "Make lunch.", context=[("guest", "something hot")])
        question = await peer.question(task)
        await peer.answer(task, question.input_id, "pepper")
        result = await peer.result(task)
        return question.text, result.text, result.parts[0].url


async def half_a_minute(home: Path) -> str:
    async def patient(task: TaskContext) -> str:
        await asyncio.sleep(30)
        return "half a minute later"

    async with (
        InProcessMesh(home) as mesh,
        AgentServer("patient", handler=patient, settings=mesh.agent_settings()),
    ):
        handle = await mesh.client.submit("Wait.", roles=["patient"])
        return answer_text(await mesh.advance_until(handle.result()))


async def crash(home: Path) -> str:
    began, go_on = asyncio.Event(), asyncio.Event()

    async def worker(task: TaskContext) -> str:
        began.set()
        await go_on.wait()
        return f"attempt {task.attempt} of {task.text}"

    async with (
        InProcessMesh(home) as mesh,
        AgentServer("worker", handler=worker, settings=mesh.agent_settings()),
    ):
        handle = await mesh.client.submit("the report", roles=["worker"])
        await began.wait()
        await mesh.orchestrator.kill()
        await mesh.orchestrator.start()
        go_on.set()
        return answer_text(await handle.result(timeout=30))
