"""Plans: a trip whose hotel is booked out, subtasks for several agents, a plan that a person approves, and one that
goes on after a stop.

python examples/plans.py
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from archon import AgentServer, TaskContext
from archon.agent import AgentSettings
from archon.errors import OperationCancelled
from archon.registry import Profile
from archon_mesh.agent import Agent
from archon_mesh.llm import ScriptedModel
from archon_mesh.people import InterceptionRule, Trigger
from archon_mesh.planning import (
    Plan,
    PlanEvent,
    Planner,
    SubTask,
    Task,
    TaskMode,
    auction,
    committee,
    create_plan,
    find_faults,
    repair,
    to_mermaid,
)
from archon_mesh.testing import InProcessMesh
from archon_mesh.tools import ToolResult, tool
from archon_mesh.tools.builtin import Calculator


@tool
def book_flight(city: str) -> dict[str, Any]:
    """Books a flight to a city, and returns the booking and the price in dollars."""
    return {"booking": "AB12", "price": 120}


@tool
def book_hotel(name: str) -> str | ToolResult:
    """Books a room in a hotel."""
    if name == "Grand":
        return ToolResult.error("the Grand is booked out")
    return f"a room at the {name}"


def step(id: str, tool_name: str, *dependencies: str, **tool_args: Any) -> dict[str, Any]:
    """Returns a subtask as a planner writes it."""
    return {
        "id": id,
        "description": f"Use {tool_name}",
        "tool_name": tool_name,
        "tool_args": tool_args,
        "dependencies": dependencies,
        "critical": True,
    }


def plan_of(*subtasks: dict[str, Any]) -> str:
    """Returns a planner's reply."""
    return json.dumps({"goal": "Book a trip to Rome", "subtasks": subtasks})


def scripted() -> ScriptedModel:
    """The first plan fails at the hotel; the second one takes another."""
    return ScriptedModel(
        [
            plan_of(step("1", "book_flight", city="Rome"), step("2", "book_hotel", "1", name="Grand")),
            plan_of(step("3", "book_hotel", "1", name="Plaza")),
        ]
    )


async def trip() -> tuple[str, list[str], int]:
    reports: list[str] = []

    def on_event(event: PlanEvent) -> None:
        reports.append(f"{event.kind} {event.subtask.id if event.subtask else ''}".strip())

    async with Agent("clerk", model=scripted(), tools=[book_flight, book_hotel]) as agent:
        answer = await agent.run_task("Book a flight to Rome and then book a hotel", on_event=on_event)
        assert agent.planned_run is not None
        outcome = agent.planned_run.outcome
        assert outcome is not None
        return answer, reports, outcome.replans


async def several_agents() -> tuple[str, str]:
    historian = Agent("historian", description="Knows facts about numbers.", model=ScriptedModel(["A full circle."]))
    async with Agent("coordinator", tools=[Calculator()], sub_agents=[historian]) as agent:
        answer = await agent.run_task("15 * 24, and facts about 360")
        assert agent.planned_run is not None
        assert agent.planned_run.outcome is not None
        return answer, agent.planned_run.outcome.reason


async def committee_of_three() -> str:
    answers = {"anna": "360", "berta": "361", "carl": "240"}
    members = [Agent(name, model=ScriptedModel([answer])) for name, answer in answers.items()]
    subtasks = committee("What is 15 * 24?", roles=list(answers))
    planner = ScriptedModel([json.dumps({"subtasks": [asdict(subtask) for subtask in subtasks]})])
    async with Agent("chair", model=planner, sub_agents=members) as chair:
        return await chair.run_task("What is 15 * 24?", mode=TaskMode.PLANNED)


async def approval() -> list[str]:
    seen: list[str] = []

    async def approve(task: Task) -> bool:
        seen.extend(f"{subtask.id}: {subtask.tool_name}" for subtask in task.subtasks)
        return True

    async def clarify(question: str) -> str:
        seen.append(question)
        return "To Rome."

    model = ScriptedModel(['{"question": "Where to?"}', plan_of(step("1", "book_flight", city="Rome"))])
    async with Agent("clerk", model=model, tools=[book_flight]) as agent:
        await agent.run_task("Book my trip.", mode=TaskMode.PLANNED, approve=approve, clarify=clarify)
    return seen


async def handle() -> tuple[str, list[str]]:
    """A person approves the plan, and answers the planner's question; the whole costs at most a dollar."""
    model = ScriptedModel(['{"question": "Where to?"}', plan_of(step("1", "book_flight", city="Rome"))])
    rule, asked = InterceptionRule(Trigger.PLAN, name="trips", timeout=3600), list[str]()
    async with Agent("clerk", model=model, tools=[book_flight]) as agent:
        run = agent.plan("Book my trip.", rules=[rule], max_cost=1.0, max_seconds=600)
        while not run.done:
            for question in run.questions():
                asked.append(question.text.splitlines()[0])
                run.respond(question, "yes" if question.is_approval else "To Rome.", identity="ann")
            await asyncio.sleep(0.01)
        return await run, asked


async def journal(path: Path) -> tuple[str, list[str]]:
    query, reports = "Book a flight to Rome and then book a hotel", list[str]()
    model = ScriptedModel([plan_of(step("1", "book_flight", city="Rome"), step("2", "book_hotel", "1", name="Plaza"))])
    first = Agent("clerk", model=model, tools=[book_flight, book_hotel])
    second = Agent("clerk", model=ScriptedModel([]), tools=[book_flight, book_hotel])

    def stop(event: PlanEvent) -> None:
        if event.kind == "subtask_completed" and first.planned_run and first.planned_run.executor:
            first.planned_run.executor.cancel()  # the hotel is not booked yet

    def on_event(event: PlanEvent) -> None:
        reports.append(f"{event.kind} {event.subtask.id if event.subtask else ''}".strip())

    with suppress(OperationCancelled):
        await first.run_task(query, journal=path, on_event=stop)
    return await second.run_task(query, journal=path, on_event=on_event), reports


def coder(quality: float, settings: AgentSettings) -> AgentServer:
    agent = AgentServer("coder", profile=Profile(expected_quality=quality), settings=settings)

    @agent.task
    async def code(task: TaskContext) -> str:
        return f"code of quality {quality}"

    return agent


async def auction_of_three(home: Path) -> str:
    return await coded(home, auction(SubTask("code", "Write the parser.", role="coder"), roles=["coder"], bidders=3))


async def committee_of_coders(home: Path) -> tuple[str, int]:
    """Three coders answer on their own, and two of them outvote the third."""
    answers = {"coder-a": "O(n)", "coder-b": "o(n).", "coder-c": "O(n^2)"}
    steps = committee("What is the complexity of the parser?", roles=list(answers))
    plan = json.dumps({"goal": "a review", "subtasks": [asdict(step) for step in steps]})
    async with InProcessMesh(home) as mesh, AsyncExitStack() as stack:
        for role, answer in answers.items():
            agent = AgentServer(role, handler=partial(review, answer), settings=mesh.agent_settings())
            await stack.enter_async_context(agent)
        handle = await mesh.client.submit("Review the parser.", strategy="plan", plan=plan, roles=list(answers))
        run = await handle.result(30)
    return run.answers[0].text, len([task for task in run.tasks if task.role in answers])


async def review(answer: str, task: TaskContext) -> str:
    return answer


async def coded(home: Path, subtasks: Sequence[SubTask]) -> str:
    plan = json.dumps({"goal": "a parser", "subtasks": [asdict(subtask) for subtask in subtasks]})
    async with InProcessMesh(home) as mesh, AsyncExitStack() as stack:
        for quality in (0.5, 0.9, 0.7):
            agent = await stack.enter_async_context(coder(quality, mesh.agent_settings()))
            await agent.reached()
        handle = await mesh.client.submit("Write the parser.", strategy="plan", plan=plan, roles=["coder"])
        return (await handle.result(30)).answers[0].text


async def planner() -> list[str]:
    tools = [Calculator(), book_hotel]
    offline = await create_plan("Calculate 15 * 24 and then book a hotel", tools)
    model = ScriptedModel([plan_of(step("1", "book_hotel", name="Plaza"))])
    scripted_plan = await Planner(model, roles={"poet": "Writes."}).create_plan("Book the hotel", tools)
    return [subtask.tool_name for subtask in (*offline.subtasks, *scripted_plan.subtasks)]


def faults() -> tuple[list[str], tuple[str, ...], list[str]]:
    task = Task(
        "task-1",
        "Book a trip",
        "Book a trip",
        (
            SubTask("flight", "Book a flight", dependencies=("hotel",)),
            SubTask("hotel", "Book a hotel", tool_name="book_hotle", dependencies=("flight",)),
        ),
    )
    tools = ["book_flight", "book_hotel"]
    found = [fault.message for fault in find_faults(task, tools=tools, roles=None, capabilities=None)]
    repaired, changes = repair(task, tools=tools, roles=None, capabilities=None)
    return found, changes, Plan.of(repaired).execution_order


def drawing() -> str:
    task = Task(
        "task-1",
        "Book a trip",
        "Book a trip",
        (
            SubTask("flight", "Book a flight").with_result({"price": 120}),
            SubTask(
                "cover",
                "Insure the trip",
                tool_name="insure",
                tool_args={"price": "{flight.price}"},
                dependencies=("flight",),
            ),
        ),
    )
    return to_mermaid(task)


async def main() -> None:
    """Prints the answers of the examples, and the drawing of a plan."""
    print(await committee_of_three())  # noqa: T201
    for result in (await trip(), await several_agents(), await approval(), await handle(), await planner(), faults()):
        print(result)  # noqa: T201
    with tempfile.TemporaryDirectory() as folder:
        print(await journal(Path(folder, "trip.journal")))  # noqa: T201
        print(await auction_of_three(Path(folder, "mesh")))  # noqa: T201
    print(drawing())  # noqa: T201


if __name__ == "__main__":
    asyncio.run(main())
