"""An agent of the A2A SDK for JavaScript, which others have written: as a role of a mesh, and as a client of one."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from archon import AgentServer, Client
from archon.types.task_state import TaskState
from archon_services.agents.a2a.handler import A2ARole
from archon_services.agents.a2a.remote import RemoteAgent, RemoteOptions
from tests.fixtures.a2a_mesh import HTTP_JSON, JSONRPC, Clerk
from tests.fixtures.http_gateway import OPERATOR, GatewayMesh, gateway_mesh
from tests.interop import builds

pytestmark = pytest.mark.slow

WITHIN = 20.0


@dataclass
class Painter:
    """The role `painter` of a mesh, whose agent is a program in JavaScript."""

    mesh: GatewayMesh
    program: asyncio.subprocess.Process

    @property
    def client(self) -> Client:
        return self.mesh.mesh.client


@asynccontextmanager
async def painter(binding: str, mesh: GatewayMesh) -> AsyncIterator[Painter]:
    """Starts the program, which may ask the clerk of the mesh, and makes it a role of the mesh."""
    folder = builds.A2A.require().parents[4]
    node = shutil.which("node")
    assert node is not None
    token = mesh.headers(OPERATOR)["authorization"].removeprefix("Bearer ") if mesh.keys else ""
    async with AsyncExitStack() as stack:
        program = await asyncio.create_subprocess_exec(
            node, "agent.js", binding, f"{mesh.url}/a2a/roles/clerk/", token, cwd=folder, stdout=asyncio.subprocess.PIPE
        )
        stack.push_async_callback(program.wait)
        stack.callback(program.kill)
        assert program.stdout is not None
        async with asyncio.timeout(WITHIN):
            url = (await program.stdout.readline()).decode().strip()
        agent = await stack.enter_async_context(RemoteAgent(RemoteOptions(url)))
        role = await stack.enter_async_context(A2ARole(agent, poll=0.01))
        settings = mesh.mesh.agent_settings()
        await stack.enter_async_context(AgentServer("painter", handler=role.handle, settings=settings))
        yield Painter(mesh, program)


@pytest.fixture(scope="module", params=[JSONRPC, HTTP_JSON])
async def guest(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Painter]:
    async with (
        gateway_mesh(Path(tmp_path_factory.mktemp("a2a"))) as mesh,
        Clerk().server(mesh),
        painter(request.param, mesh) as started,
    ):
        yield started


async def test_its_answer_is_part_of_a_run(guest: Painter) -> None:
    handle = await guest.client.submit("the door", roles=["painter"], wait=WITHIN)
    assert [answer.text for answer in handle.run.answers] == ["done: the door"]


async def test_pieces_of_its_answer_are_put_together(guest: Painter) -> None:
    handle = await guest.client.submit("stream it", roles=["painter"], wait=WITHIN)
    assert handle.run.answers[0].text == "one two three"


async def test_it_calls_a_role_of_the_mesh_while_it_takes_part_in_a_run(guest: Painter) -> None:
    handle = await guest.client.submit("delegate it", roles=["painter"], wait=WITHIN)
    assert handle.run.answers[0].text == "they say: did: paint the gate"


async def test_its_questions_are_questions_of_the_run(guest: Painter) -> None:
    handle = await guest.client.submit("ask me", roles=["painter"])
    async for view in handle.views():
        for question in view.questions:
            assert question.text == "Which colour?"
            await guest.client.respond(handle.run_id, question.input_id, "green")
    assert (await handle.result(WITHIN)).answers[0].text == "painted green"


async def test_a_cancelled_run_cancels_its_task(guest: Painter) -> None:
    handle = await guest.client.submit("wait for it", roles=["painter"])
    async with aclosing(handle.events()) as events:
        async for event in events:
            if event.type == "checkpoint":
                break
    await handle.cancel()
    assert guest.program.stdout is not None
    async with asyncio.timeout(WITHIN):
        assert await guest.program.stdout.readline() == b"cancelled\n"
    assert (await handle.result(WITHIN)).state is TaskState.CANCELED


async def test_its_failure_fails_the_run(guest: Painter) -> None:
    handle = await guest.client.submit("fail please", roles=["painter"], wait=WITHIN)
    assert handle.run.state is TaskState.FAILED and handle.run.failure is not None
    assert "no paint" in handle.run.failure.message
