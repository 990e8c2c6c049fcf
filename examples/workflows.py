"""Workflows: a trip with a loop over its flights, a condition, another workflow, an approval and an error branch.

python examples/workflows.py
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from archon.errors import InvalidArgument
from archon_mesh.agent import Agent
from archon_mesh.llm import ScriptedModel
from archon_mesh.people import PersonQuestion, answered_by
from archon_mesh.planning import PlanEvent, PlanEventKind, Task
from archon_mesh.tools import tool
from archon_mesh.workflows import (
    ApprovalTool,
    StepResult,
    WorkflowFolder,
    WorkflowPlanner,
    WorkflowTemplate,
    expand,
    record,
)

FOLDER = WorkflowFolder(Path(__file__).parent / "workflows")


@tool
def search_flights(to: str) -> list[dict[str, Any]]:
    """Searches flights to a city."""
    return [{"number": "AR1", "to": to}, {"number": "AR2", "to": to}]


@tool
def book_room(city: str, nights: int) -> str:
    """Books a room."""
    return f"A room in {city} for {nights} nights."


async def trip() -> tuple[str, list[str]]:
    asked: list[str] = []

    async def ask(question: PersonQuestion) -> str:
        asked.append(question.text)
        return "approve"

    writer = Agent("writer", model=ScriptedModel(["Early.", "Late.", "Take AR1.", "AR1, and a room."]))
    async with Agent("clerk", tools=[search_flights, book_room, ApprovalTool()], sub_agents=[writer]) as agent:
        planner = WorkflowPlanner(FOLDER.load("trip"), {"city": "Rome"})
        with answered_by(ask):
            return await agent.run_task("Book a trip to Rome", planner=planner), asked


def known() -> list[list[str]]:
    """The steps that are known at first, and once the flights are there; a * marks those that wait for results."""
    workflow, plans = FOLDER.load("trip"), []
    for results in ({}, {"flights": StepResult('[{"number": "AR1"}, {"number": "AR2"}]')}):
        subtasks = expand(workflow, {"city": "Rome"}, results).subtasks
        plans.append([subtask.id + "*" * subtask.expand for subtask in subtasks])
    return plans


def wrong_arguments() -> str:
    try:
        WorkflowPlanner(FOLDER.load("trip"), {"nights": "two"})
    except InvalidArgument as error:
        return error.message
    return ""


async def approve(question: PersonQuestion) -> str:
    """Approves everything."""
    return "approve"


async def template() -> str:
    async with Agent("clerk", tools=[book_room, ApprovalTool()]) as agent:
        templates = [WorkflowTemplate(FOLDER.load("stay"))]
        with answered_by(approve):
            return await agent.run_task("stay city=Rome nights=3", templates=templates)


async def recorded() -> str:
    plans: list[Task] = []

    def on_event(event: PlanEvent) -> None:
        if event.kind is PlanEventKind.COMPLETED and event.task is not None:
            plans.append(event.task)

    plan = '{"subtasks": [{"id": "1", "tool_name": "book_room", "tool_args": {"city": "Rome", "nights": 3}}]}'
    async with Agent("clerk", model=ScriptedModel([plan]), tools=[book_room]) as agent:
        await agent.run_task("Plan 3 nights in Rome", on_event=on_event)
    return record(plans[0], "nights").to_yaml()


if __name__ == "__main__":
    for example in (trip, template, recorded):
        print(asyncio.run(example()))  # noqa: T201 - the example's output
