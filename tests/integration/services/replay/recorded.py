"""A run of four roles with what a replay plays: model calls, an item, two parallel delegations, a retry, a question to a
person, and steps in parallel."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

from archon.agent import AgentSettings, Question, TaskContext
from archon.errors import Unavailable
from archon.testing import FakeAgent
from archon_mesh.declared import load_agent
from archon_mesh.node.serve import agent_server
from archon_services.agents.roles.catalogue import find_role
from archon_services.replay import ExportedRun, export_run
from archon_services.testing import InProcessMesh
from tests.fixtures.waiting import eventually

ROLES = ("requirements", "checker", "lead", "writer")


async def lead(task: TaskContext) -> str:
    task.publish("the lead has begun")
    parts = await asyncio.gather(*(task.delegate(f"part {number}", role="coder") for number in range(2)))
    return f"lead of {len(task.context)}: " + " ".join(sorted(part.text for part in parts))


def leader(settings: AgentSettings) -> FakeAgent:
    """The lead, who delegates to the coder twice."""
    return FakeAgent("lead", [lead], settings=settings, depends_on=["requirements"])


def writer(settings: AgentSettings, answer: str = "the report") -> FakeAgent:
    """The writer, who asks a person first."""
    return FakeAgent("writer", [Question("Which colour?"), answer], settings=settings, depends_on=["lead", "checker"])


async def record_run(folder: Path, file: Path) -> ExportedRun:
    """Executes the run in a mesh of its own, and exports it."""
    async with InProcessMesh(folder) as mesh, AsyncExitStack() as stack:
        file_of_role = find_role("requirements")
        assert isinstance(file_of_role, str)
        declared = load_agent(file_of_role, model="offline")
        await stack.enter_async_context(declared.agent)
        settings = mesh.agent_settings
        for member in (
            agent_server(declared.role, declared.agent, settings()),
            FakeAgent("checker", ["checked"], settings=settings(), depends_on=["requirements"]),
            FakeAgent("coder", [Unavailable("busy"), "one", "one"], settings=settings()),
            leader(settings()),
            writer(settings()),
        ):
            await stack.enter_async_context(member)
        handle = await mesh.client.submit("Build a todo app. It must sync.", roles=ROLES)

        async def asked() -> bool:
            return bool((await mesh.client.get(handle.run_id)).questions)

        await eventually(asked)
        (question,) = (await mesh.client.get(handle.run_id)).questions
        await mesh.client.respond(handle.run_id, question.input_id, "blue")
        assert (await handle.result(10)).state == "completed"
        return await export(mesh, handle.run_id, file)


async def export(mesh: InProcessMesh, run_id: str, file: Path) -> ExportedRun:
    """Exports a run."""
    with file.open("wb") as output:
        return await export_run(
            run_id,
            output,
            orchestrator=mesh.orchestrator.address,
            memory=mesh.memory.address,
            registry=mesh.registry.address,
        )
