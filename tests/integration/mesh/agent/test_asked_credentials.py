"""A tool of the mesh that lacks a credential: a person is asked, and only the tool sees the answer."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from archon.agent import AgentSettings
from archon.client import Client, answer_text
from archon.errors import InvalidArgument
from archon.secret_answers import seal
from archon.types import Run, RunQuestion, TaskState
from archon_mesh.agent import Agent
from archon_mesh.core.messages import ToolCall
from archon_mesh.llm import ScriptedModel
from archon_mesh.node import Role, agent_server
from archon_mesh.tools import Secret, tool
from archon_services.orchestrator.app import orchestrator_app
from archon_services.orchestrator.settings import OrchestratorSettings
from archon_services.registry.app import registry_app
from archon_services.registry.settings import RegistrySettings
from tests.fixtures.fork_server import fork_server
from tests.fixtures.waiting import eventually

SECRET = "hunter22-correct-horse"
LOCAL: dict[str, Any] = {"host": "127.0.0.1", "port": 0}
COMMAND = "archon_services.cli"
USED: list[str] = []


@tool(credentials=["api_key"])
async def fetch(page: int, api_key: Secret) -> str:
    """Reads a page."""
    USED.append(api_key.reveal())
    return f"page {page}, read with {api_key.reveal()}"


class Asking:
    """A mesh with an agent that asks for credentials, and the address of its orchestrator."""

    def __init__(self, client: Client, address: str, journal: Path) -> None:
        self.client, self.address, self.journal = client, address, journal

    async def asked(self) -> tuple[str, RunQuestion]:
        """Submits a run; returns its id and its question."""
        run_id = (await self.client.submit("read page 1", roles=["reader"])).run_id
        questions: list[RunQuestion] = []

        async def is_asked() -> bool:
            questions[:] = (await self.client.get(run_id)).questions
            return bool(questions)

        await eventually(is_asked)
        return run_id, questions[0]

    async def ended(self, run_id: str) -> Run:
        async for _ in self.client.watch(run_id):
            pass
        return await self.client.get(run_id)


@pytest.fixture
async def mesh(tmp_path: Path) -> AsyncIterator[Asking]:
    USED.clear()

    def reply(request: Any) -> Any:
        results = [message.content for message in request.messages if message.role == "tool"]
        return f"it says: {results[-1]}" if results else ToolCall("c", "fetch", '{"page": 1}')

    async with AsyncExitStack() as stack:
        registry = await stack.enter_async_context(registry_app(RegistrySettings(etcd="memory", **LOCAL)))
        journal = tmp_path / "journal.db"
        settings = OrchestratorSettings(journal=str(journal), registry=registry, **LOCAL)
        orchestrator = await stack.enter_async_context(orchestrator_app(settings))
        agent = await stack.enter_async_context(Agent("reader", model=ScriptedModel(reply), tools=[fetch]))
        role = Role("reader", "You read.", asks_credentials=True)
        await stack.enter_async_context(agent_server(role, agent, AgentSettings(registry=registry, **LOCAL)))
        client = await stack.enter_async_context(Client(orchestrator))
        yield Asking(client, orchestrator, journal)


async def test_the_answer_reaches_the_tool_and_nothing_else(mesh: Asking, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    run_id, question = await mesh.asked()
    assert question.prompt[0].text == "The tool fetch needs the credential api_key."
    await mesh.client.respond(run_id, question.input_id, seal(question.schema_json, SECRET))
    run = await mesh.ended(run_id)
    assert run.state == TaskState.COMPLETED
    assert answer_text(run) == "it says: page 1, read with ***"
    assert USED == [SECRET]
    events = [event async for event in mesh.client.watch(run_id)]
    assert SECRET not in "".join(map(str, events))
    stored = b"".join(file.read_bytes() for file in mesh.journal.parent.glob("journal.db*"))
    assert run_id.encode() in stored
    assert SECRET.encode() not in stored
    assert SECRET not in caplog.text


async def test_each_run_is_asked_for_itself(mesh: Asking) -> None:
    run_id, question = await mesh.asked()
    await mesh.client.respond(run_id, question.input_id, seal(question.schema_json, SECRET))
    await mesh.ended(run_id)
    other_id, asked_again = await mesh.asked()
    assert asked_again.schema_json != question.schema_json
    await mesh.client.cancel(other_id)


async def test_an_answer_that_is_not_encrypted_is_refused_unseen(mesh: Asking) -> None:
    run_id, question = await mesh.asked()
    with pytest.raises(InvalidArgument, match="the answer must be encrypted") as refused:
        await mesh.client.respond(run_id, question.input_id, SECRET)
    assert SECRET not in str(refused.value)
    await mesh.client.cancel(run_id)


async def test_archon_respond_encrypts_the_answer(mesh: Asking) -> None:
    run_id, _ = await mesh.asked()
    shown = await archon("show", run_id, "--orchestrator", mesh.address)
    assert "The answer is secret: `archon respond` encrypts it for reader." in shown
    assert '"..."' not in shown
    accepted = await archon("respond", run_id, "-", "--orchestrator", mesh.address, stdin=f"{SECRET}\n")
    assert accepted.startswith("Answer accepted.")
    assert (await mesh.ended(run_id)).state == TaskState.COMPLETED
    assert USED == [SECRET]
    shown = await archon("show", run_id, "--orchestrator", mesh.address)
    assert "answer: (secret)" in shown


async def archon(*arguments: str, stdin: str = "") -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ARCHON_")}
    process = await asyncio.to_thread(fork_server.run, COMMAND, arguments, environment, stdin, 60)
    assert process.returncode == 0, process.stderr
    return process.stdout
