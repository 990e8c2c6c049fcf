"""Tests of agents: a scripted model, one handler, virtual time, a mesh in the test's event loop, and faults by name."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from archon import AgentServer, Answer, TaskContext
from archon.client import answer_text
from archon.types import Part
from archon_mesh import Agent, tool
from archon_mesh.llm import ToolCall
from archon_mesh.testing import (
    FakeAgent,
    FakeOrchestrator,
    FaultyModel,
    FaultyTool,
    InProcessMesh,
    RecordedModel,
    ScriptedModel,
    VirtualTime,
)


async def scripted() -> tuple[str, str]:
    @tool
    def population(city: str) -> int:
        """Says how many people live in a city."""
        return 545_000

    model = ScriptedModel([ToolCall("1", "population", '{"city": "Lisbon"}'), "545,000 people."])
    answer = await Agent("guide", model=model, tools=[population]).run_async("How many people live in Lisbon?")
    return answer, model.requests[1].messages[-1].content


async def recorded(file: Path) -> str:
    with RecordedModel(file, "guide") as model:
        agent = Agent("guide", model=model, system_prompt="You know cities. Be brief.")
        answer = await agent.run_async(model.input)
        assert answer == model.answer
        return answer


async def test_the_guide_answers_as_in_march(recorded_model: Callable[..., RecordedModel]) -> None:
    model = recorded_model("march.archon", "guide", live="openai/gpt-5-mini")
    answer = await Agent("guide", model=model, system_prompt="You know cities. Be brief.").run_async(model.input)
    assert "545,000" in answer


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


async def minutes_of_retries() -> tuple[str, bool]:
    model = FaultyModel(ScriptedModel(["It is 45."]))
    async with VirtualTime() as time, model.fault("rate_limited", times=2, retry_after=20):
        answer = await Agent("clerk", model=model).run_async("What is 15 times 3?")
        return answer, time.now >= 40


async def reminder() -> list[str]:
    said: list[str] = []

    async def remind() -> None:
        await asyncio.sleep(3 * 86_400)
        said.append("The invoice is still open.")

    async with VirtualTime() as time:
        reminding = asyncio.create_task(remind())
        await time.advance(3 * 86_400 - 1)
        assert not said
        await time.advance(1)
        assert reminding.done()
        return said


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
        async with mesh.fault("orchestrator_killed"):
            go_on.set()
        return answer_text(await handle.result(timeout=30))


async def lost_agent(home: Path) -> str:
    began, go_on = asyncio.Event(), asyncio.Event()

    async def stuck(task: TaskContext) -> str:
        began.set()
        await go_on.wait()
        return "too late"

    async def helpful(task: TaskContext) -> str:
        return f"attempt {task.attempt}"

    async with (
        InProcessMesh(home, links=True) as mesh,
        AgentServer("worker", handler=stuck, settings=mesh.agent_settings(ttl=2.0)) as first,
    ):
        handle = await mesh.client.submit("the report", roles=["worker"])
        await began.wait()
        async with (
            AgentServer("worker", handler=helpful, settings=mesh.agent_settings(ttl=2.0)),
            mesh.fault("agent_lost", first),
        ):
            answer = answer_text(await mesh.advance_until(handle.result()))
        go_on.set()  # in the process of the test the lost agent is still working
        return answer


async def tool_that_is_down() -> tuple[str, int]:
    @tool(idempotent=True)
    async def weather(city: str) -> str:
        """Says the weather of a city."""
        return f"sunny in {city}"

    flaky = FaultyTool(weather)
    model = ScriptedModel([ToolCall("1", "weather", '{"city": "Porto"}'), "It is sunny."])
    async with VirtualTime(), flaky.fault("unavailable", times=2):
        return await Agent("guide", model=model, tools=[flaky]).run_async("The weather of Porto?"), flaky.failed
