"""Agents elsewhere that speak A2A as roles of a mesh: the other agent is written with the protocol's own SDK alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import pytest_asyncio

from archon import AgentServer, Client
from archon.errors import InvalidArgument, PermissionDenied, Unauthenticated, UnknownFailure
from archon.types.budget import Budget
from archon.types.task_state import TaskState
from archon_services.agents.a2a.app import A2ARoleOptions, capabilities_of, role_of
from archon_services.agents.a2a.handler import A2ARole
from archon_services.agents.a2a.remote import RemoteAgent, RemoteOptions
from archon_services.gateway.serving import serving
from tests.fixtures.a2a_agent import Poet, agent_application, free_port
from tests.fixtures.a2a_mesh import Clerk, calling, text_of
from tests.fixtures.http_gateway import GatewayMesh, gateway_mesh

TOKEN = "a-token-of-the-poet"


@dataclass
class Guest:
    """A mesh with the role `poet`, whose agent is elsewhere, behind a gateway."""

    mesh: GatewayMesh
    poet: Poet
    url: str
    headers: list[dict[str, str]] = field(default_factory=list)

    @property
    def client(self) -> Client:
        return self.mesh.mesh.client


@pytest_asyncio.fixture(scope="module")
async def guest(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Guest]:
    poet, port, seen = Poet(), free_port(), list[dict[str, str]]()
    url = f"http://127.0.0.1:{port}/"
    async with AsyncExitStack() as stack:
        mesh = await stack.enter_async_context(gateway_mesh(Path(tmp_path_factory.mktemp("a2a"))))
        await stack.enter_async_context(Clerk().server(mesh))
        await stack.enter_async_context(serving(agent_application(poet, url, TOKEN, seen), "127.0.0.1", port))
        agent = await stack.enter_async_context(RemoteAgent(RemoteOptions(url, TOKEN)))
        role = await stack.enter_async_context(A2ARole(agent, poll=0.01))
        settings = mesh.mesh.agent_settings()
        await stack.enter_async_context(AgentServer("poet", handler=role.handle, max_tasks=10, settings=settings))
        yield Guest(mesh, poet, url, seen)


async def test_its_answer_is_part_of_a_run(guest: Guest) -> None:
    handle = await guest.client.submit("spring", roles=["poet"], wait=10, timeout=60)
    [answer] = handle.run.answers
    assert answer.text == "a poem about spring"
    assert guest.headers[-1]["authorization"] == f"Bearer {TOKEN}"


async def test_its_questions_are_questions_of_the_run(guest: Guest) -> None:
    handle = await guest.client.submit("ask me", roles=["poet"])
    async for view in handle.views():
        for question in view.questions:
            assert question.text == "About what?"
            await guest.client.respond(handle.run_id, question.input_id, "autumn")
    assert (await handle.result(10)).answers[0].text == "a poem about autumn"


async def test_a_credential_that_it_needs_is_a_secret_of_the_run(guest: Guest) -> None:
    from archon.secret_answers import seal

    handle = await guest.client.submit("secret poem", roles=["poet"])
    async for view in handle.views():
        for question in view.questions:
            sealed = seal(question.schema_json, "key-4711")
            await guest.client.respond(handle.run_id, question.input_id, sealed)
    assert (await handle.result(10)).answers[0].text == "a poem about key-4711"
    async with aclosing(guest.client.watch(handle.run_id)) as events:
        given = [event async for event in events if event.type == "input_given"]
    assert given and "key-4711" not in str(given[0].proto)


async def test_a_cancelled_run_cancels_its_task(guest: Guest) -> None:
    guest.poet.cancelled.clear()
    handle = await guest.client.submit("wait for it", roles=["poet"])
    async with aclosing(handle.events()) as events:
        async for event in events:
            if event.type == "checkpoint":
                break
    await handle.cancel()
    async with asyncio.timeout(10):
        await guest.poet.cancelled.wait()
    assert (await handle.result(10)).state is TaskState.CANCELED


async def test_its_failure_fails_the_run_once(guest: Guest) -> None:
    handle = await guest.client.submit("fail please", roles=["poet"], wait=10)
    assert handle.run.state is TaskState.FAILED and handle.run.failure is not None
    assert "no rhyme on it" in handle.run.failure.message
    assert guest.poet.texts.count("fail please") == 1
    assert handle.run.failure.code == UnknownFailure.code


async def test_it_takes_part_in_a_run_and_calls_a_role(guest: Guest) -> None:
    async with calling(guest.mesh, None, "clerk") as caller:

        async def colleague(text: str) -> str:
            return text_of(await caller.send(text))

        guest.poet.colleague = colleague
        handle = await guest.client.submit("delegate it", roles=["poet"], wait=10, budget=Budget(max_tokens=1000))
    assert handle.run.answers[0].text == "they say: did: paint the gate"


async def test_a_mesh_is_a_role_of_itself_through_a2a(guest: Guest) -> None:
    url = f"{guest.mesh.url}/a2a/roles/clerk"
    async with RemoteAgent(RemoteOptions(url)) as agent, A2ARole(agent, poll=0.01) as role:
        settings = guest.mesh.mesh.agent_settings()
        async with AgentServer("far-clerk", handler=role.handle, settings=settings):
            handle = await guest.client.submit("approve it", roles=["far-clerk"])
            async for view in handle.views():
                for question in view.questions:
                    assert question.is_approval
                    await guest.client.respond(handle.run_id, question.input_id, decision="approve")
            assert (await handle.result(10)).answers[0].text == "decided: approve"


async def test_a_question_that_is_answered_elsewhere_is_no_question_here(guest: Guest) -> None:
    url = f"{guest.mesh.url}/a2a/roles/clerk"
    async with RemoteAgent(RemoteOptions(url)) as agent, A2ARole(agent, poll=0.01) as role:
        settings = guest.mesh.mesh.agent_settings()
        async with AgentServer("shy-clerk", handler=role.handle, settings=settings):
            handle = await guest.client.submit("ask it", roles=["shy-clerk"])
            async for view in handle.views():
                if view.questions:
                    for question in await guest.client.list_questions():
                        if question.role == "clerk":
                            await guest.client.respond(question.run_id, question.input_id, "pink")
            assert (await handle.result(10)).answers[0].text == "painted pink"


async def test_its_card_gives_the_name_and_the_capabilities(guest: Guest) -> None:
    options = A2ARoleOptions(RemoteOptions(guest.url, TOKEN), capabilities=["haiku"])
    async with RemoteAgent(options.remote) as agent:
        card = await agent.card()
    assert role_of(options, card) == "poet-laureate"
    assert [each.id for each in capabilities_of(options, card)] == ["poems-rhymes", "haiku"]


async def test_a_card_that_cannot_be_trusted_is_refused(guest: Guest, tmp_path: Path) -> None:
    async with RemoteAgent(RemoteOptions(guest.url, "wrong")) as agent:
        with pytest.raises(Unauthenticated, match="401"):
            await agent.card()
    keys = tmp_path / "keys.json"
    async with guest.mesh.http() as http:
        keys.write_text((await http.get("/.well-known/jwks.json")).text)
    async with RemoteAgent(RemoteOptions(guest.url, TOKEN, str(keys))) as agent:
        with pytest.raises(PermissionDenied, match="no signature"):
            await agent.card()
    async with RemoteAgent(RemoteOptions(f"{guest.mesh.url}/a2a/roles/clerk", "", str(keys))) as agent:
        assert (await agent.card()).name == "clerk"
    async with RemoteAgent(RemoteOptions(f"{guest.mesh.url}/healthz", TOKEN)) as agent:
        with pytest.raises(Exception, match="404"):
            await agent.card()
    host = guest.url.replace("127.0.0.1", "localhost")
    async with RemoteAgent(RemoteOptions(host, TOKEN)) as agent:
        with pytest.raises(PermissionDenied, match="elsewhere"):
            await agent.card()
    keys.write_text("{}")
    async with RemoteAgent(RemoteOptions(guest.url, TOKEN, str(keys))) as agent:
        with pytest.raises(InvalidArgument, match="Key Set"):
            await agent.card()
