"""Work lists: workers take pages of a book until all are proofread, by hand and as a swarm.

python examples/work_lists.py
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
from archon_mesh.agent import Agent
from archon_mesh.llm import ModelRequest, ScriptedModel
from archon_mesh.node import Role, agent_server
from archon_mesh.planning import swarm
from archon_mesh.testing import InProcessMesh

PAGES = {f"page-{number}": f"teh text of page {number}" for number in range(1, 13)}

clerk, proofreader, printer = AgentServer("clerk"), AgentServer("proofreader"), AgentServer("printer")


@clerk.task
async def give(task: TaskContext) -> str:
    await task.work("pages").add(PAGES)
    return f"{len(PAGES)} pages"


@proofreader.task
async def proofread(task: TaskContext) -> str:
    work = task.work("pages")
    done = 0
    async for item in work:
        if "page 7" in item.value:
            await work.fail(item, "the page is torn")
            continue
        await work.done(item, item.value.replace("teh", "the"))
        if item.id == "page-12":
            await work.add({"index": "teh index"})
        done += 1
    return f"{done} pages"


@printer.task
async def print_book(task: TaskContext) -> str:
    results = await task.work("pages").results()
    return f"{len(results.done)} pages, without {results.failed}"


async def by_hand(home: Path) -> str:
    """Two tasks of a role take the pages; page 7 fails in three tries."""
    steps = [
        {"id": "give", "description": "Give the pages.", "role": "clerk"},
        {"id": "one", "description": "Proofread.", "role": "proofreader", "dependencies": ["give"]},
        {"id": "two", "description": "Proofread, too.", "role": "proofreader", "dependencies": ["give"]},
        {"id": "book", "description": "Print.", "role": "printer", "dependencies": ["one", "two"]},
    ]
    agents = (clerk, proofreader, printer)
    async with InProcessMesh(home) as mesh, AsyncExitStack() as stack:
        for agent in agents:
            agent.settings = mesh.agent_settings()
            await stack.enter_async_context(agent)
        plan = json.dumps({"goal": "A book.", "subtasks": steps})
        roles = [agent.role for agent in agents]
        return answer_text((await mesh.client.submit("A book.", strategy="plan", plan=plan, roles=roles, wait=30)).run)


def reply(request: ModelRequest) -> str:
    """Answers as a model that translates, or makes one text of translations."""
    text = request.messages[-1].content
    if "All items are done" in text:
        return "The words are translated."
    return {"bridge": "Brücke", "river": "Fluss", "arch": "Bogen"}[text.rpartition("\n")[2]]


async def by_a_swarm(home: Path) -> str:
    """Three instances of an agent translate words; the last step makes one answer of the results."""
    words = ["bridge", "river", "arch"]
    steps = swarm("Translate into German.", roles=["translator"], members=3, items=words, gather="translator")
    plan = json.dumps({"goal": "Translate.", "subtasks": [asdict(step) for step in steps]})
    async with InProcessMesh(home) as mesh, AsyncExitStack() as stack:
        for _ in range(3):
            agent = await stack.enter_async_context(Agent("translator", model=ScriptedModel(reply)))
            server = agent_server(Role("translator", "You translate."), agent, mesh.agent_settings())
            await stack.enter_async_context(server)
        handle = await mesh.client.submit("Translate.", strategy="plan", plan=plan, roles=["translator"], wait=30)
    return answer_text(handle.run)


async def main(home: Path) -> None:
    print(await by_hand(home / "a"))  # noqa: T201
    print(await by_a_swarm(home / "b"))  # noqa: T201


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(Path(folder)))
