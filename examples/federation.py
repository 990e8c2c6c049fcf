"""Two meshes: a role of the first one is the second one."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from archon import AgentServer, TaskContext
from archon.client import answer_text
from archon.federation import MeshGateway, RunChoice, gateway_server
from archon_mesh.testing import InProcessMesh

researcher = AgentServer("researcher", description="Finds facts.")
writer = AgentServer("writer", depends_on=["research"])


@researcher.task
async def find(task: TaskContext) -> str:
    year = await task.ask("Which year?")
    return f"The bridge was built in {year}."


@writer.task
async def write(task: TaskContext) -> str:
    return f"A story. {task.context[0].text}"


async def two_meshes(office: InProcessMesh, library: InProcessMesh) -> str:
    """A writer of the office depends on a role that is the library."""
    gateway = MeshGateway(
        "library",
        library.orchestrator.address,
        choice=RunChoice(strategy="agent", roles=["researcher"]),
        mesh_id="office",
    )
    research = gateway_server(gateway, "research", description="Finds facts.", settings=office.agent_settings())
    writer.settings, researcher.settings = office.agent_settings(), library.agent_settings()
    async with gateway, research, researcher, writer:
        handle = await office.client.submit("Write about the bridge.", roles=["research", "writer"])
        async for view in handle.views():
            for question in view.questions:
                await office.client.respond(handle.run_id, question.input_id, "1665")
        return answer_text(await handle.result(30))


async def main(folder: Path) -> str:
    for name in ("office", "library"):
        (folder / name).mkdir()
    async with InProcessMesh(folder / "office") as office, InProcessMesh(folder / "library") as library:
        return await two_meshes(office, library)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as home:
        print(asyncio.run(main(Path(home))))  # noqa: T201
