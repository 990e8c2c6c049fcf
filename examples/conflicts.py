"""Two researchers disagree about a number; an arbiter settles it, and the writer uses the right one.

python examples/conflicts.py
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from contextlib import AsyncExitStack
from dataclasses import asdict
from pathlib import Path

from archon import AgentServer, TaskContext
from archon.client import answer_text
from archon.types import Verdict
from archon_mesh.node import Arbitration, arbiter_handler
from archon_mesh.planning import SubTask, settled
from archon_mesh.testing import InProcessMesh

GOAL = "Write about the old bridge."

archivist, tourist, validator, writer, editor = map(
    AgentServer, ("archivist", "tourist", "validator", "writer", "editor")
)
arbiter = AgentServer("arbiter", handler=arbiter_handler(None, Arbitration(ways=["method", "verify"], redo=True)))


@archivist.task
async def consult(task: TaskContext) -> str:
    if task.step_id:
        return "14"
    return json.dumps({"method": "the plans of 1665 have 14 arches", "answer": "14"})


@tourist.task
async def count(task: TaskContext) -> str:
    if task.step_id:
        return "12"
    if "Do the work again" in task.text:
        return "14: I had not seen the two in the reeds."
    return json.dumps({"method": "I counted them from a boat", "answer": "12"})


@validator.task
async def check(task: TaskContext) -> str:
    return "PASS" if "the plans of 1665" in task.text else "FAIL\nA count from a boat misses arches."


@writer.task
async def write(task: TaskContext) -> str:
    return f"the old bridge has {task.context[0].text} arches."


@editor.task
async def edit(task: TaskContext) -> str:
    return task.context[0].text.capitalize()


def plan() -> str:
    steps = [
        *settled("How many arches has the old bridge?", roles=["archivist", "tourist"], id="arches", arbiter="arbiter"),
        SubTask("text", "Write one sentence.", role="writer", dependencies=("arches",)),
        SubTask("edited", "Correct the sentence.", role="editor", dependencies=("text",)),
    ]
    return json.dumps({"goal": GOAL, "subtasks": [asdict(step) for step in steps]})


async def bridge(home: Path) -> tuple[str, str]:
    agents = (archivist, tourist, validator, arbiter, writer, editor)
    async with InProcessMesh(home) as mesh, AsyncExitStack() as stack:
        for agent in agents:
            agent.settings = mesh.agent_settings()
            await stack.enter_async_context(agent)
        roles = [agent.role for agent in agents]
        handle = await mesh.client.submit(GOAL, strategy="plan", plan=plan(), roles=roles, wait=30)
        made = [Verdict.in_metadata(event.data.get("metadata", {})) async for event in handle.events()]
    (verdict,) = filter(None, made)
    return answer_text(handle.run), f"{verdict.way}: {verdict.reason}. Again: {verdict.redone['arches-2']}"


surveyor, reporter, inspector = map(AgentServer, ("surveyor", "reporter", "inspector"))


@surveyor.task
async def survey(task: TaskContext) -> str:
    await task.facts.establish("length in m", 120)
    await task.facts.establish("arches", 14)
    return "surveyed"


@reporter.task
async def report(task: TaskContext) -> str:
    return json.dumps({"title": "The old bridge", "length_in_m": 118, "arches": 12})


@inspector.task
async def inspect(task: TaskContext) -> str:
    facts = {fact.key: fact for fact in await task.facts.list()}
    (settled,) = facts["arches"].contradictions
    confirmed = len(facts["length in m"].confirmed_by)
    return (
        f"{facts['arches'].value} arches: {settled.status}, by {settled.way}; the length is confirmed {confirmed} times"
    )


async def facts(home: Path) -> str:
    """A report contradicts a fact that a survey has established; the arbiter has both values checked."""
    order = ("surveyor", "reporter", "inspector")
    steps = [
        SubTask(role, "Look at the bridge.", role=role, dependencies=order[:number])
        for number, role in enumerate(order)
    ]
    plan = json.dumps({"goal": GOAL, "subtasks": [asdict(step) for step in steps]})
    agents = (surveyor, reporter, inspector, survey_arbiter, survey_validator)
    async with InProcessMesh(home) as mesh, AsyncExitStack() as stack:
        for agent in agents:
            agent.settings = mesh.agent_settings()
            await stack.enter_async_context(agent)
        roles = [agent.role for agent in agents]
        arbiter = {"dev.archon.facts/arbiter": "arbiter"}
        handle = await mesh.client.submit(GOAL, strategy="plan", plan=plan, roles=roles, metadata=arbiter, wait=30)
    return answer_text(handle.run)


survey_arbiter = AgentServer("arbiter", handler=arbiter_handler(None, Arbitration(ways=["verify"])))
survey_validator = AgentServer("validator")


@survey_validator.task
async def check_survey(task: TaskContext) -> str:
    return "PASS" if "The answer to check:\n14" in task.text else "FAIL"


async def main(home: Path) -> None:
    print(await bridge(home / "a"))  # noqa: T201
    print(await facts(home / "b"))  # noqa: T201


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(Path(folder)))
