"""Runs as tasks of the extension, for a client that takes them: read, answered, cancelled and listened to."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from pydantic import TypeAdapter

from archon_mesh.tools import ToolExecutionEngine, ToolRegistry
from archon_mesh.tools.mcp import McpToolSource
from archon_mesh.tools.mcp.tasks import CancelTask, GetTask, TaskParams, UpdateParams, UpdateTask
from archon_mesh.tools.people.ask import PersonQuestion, answered_by
from archon_services.gateway.mcp import calls
from archon_services.testing.local_service import LocalService
from tests.fixtures.a2a_mesh import Clerk
from tests.fixtures.http_gateway import OPERATOR, gateway_mesh, open_gateway, settings_for
from tests.fixtures.mcp_mesh import Person, mcp_client, text_of
from tests.integration.services.gateway.mcp.conftest import Office

STATE: Any = TypeAdapter(dict[str, Any])
TASKS = "io.modelcontextprotocol/tasks"


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call is a task after a shorter time."""
    monkeypatch.setattr(calls, "AT_ONCE", 0.05)


async def begin(client: Client, goal: str) -> str:
    """Begins a call that becomes a task, and returns the id."""
    created: Any = await client.session.call_tool("clerk", {"goal": goal}, allow_claimed=True)
    assert created.result_type == "task"
    return str(created.task_id)


async def read(client: Client, task_id: str) -> dict[str, Any]:
    task: dict[str, Any] = await client.session.send_request(GetTask(params=TaskParams(task_id=task_id)), STATE)
    return task


async def until_status(client: Client, task_id: str, status: str) -> dict[str, Any]:
    while (task := await read(client, task_id))["status"] != status:
        assert task["status"] in ("working", "input_required"), task
    return task


async def test_a_call_of_seconds_is_a_task_and_a_quick_one_is_not(office: Office) -> None:
    office.clerk.released.clear()
    async with mcp_client(office.mesh, OPERATOR, tasks=True) as client:
        quick: Any = await client.session.call_tool("finder", {"goal": "x"}, allow_claimed=True)
        assert quick.result_type in ("complete", "task")
        task_id = await begin(client, "wait")
        task = await read(client, task_id)
        assert (task["taskId"], task["status"], task["ttlMs"]) == (task_id, "working", None)
        assert "requestState" not in task and "result" not in task
        office.clerk.released.set()
        done = await until_status(client, task_id, "completed")
        assert done["result"]["content"][0]["text"] == "released"


async def test_a_failure_of_the_role_is_a_result_that_says_so(office: Office) -> None:
    async with mcp_client(office.mesh, OPERATOR, tasks=True) as client:
        result = await client.call_tool("clerk", {"goal": "fail"})
        assert result.is_error and "there is no paint" in text_of(result)


async def test_questions_of_a_task_are_answered_by_updates(office: Office) -> None:
    person = Person({"answer": "blue"})
    async with mcp_client(office.mesh, OPERATOR, tasks=True, person=person) as client:
        assert text_of(await client.call_tool("clerk", {"goal": "ask"})) == "painted blue"
        task_id = await begin(client, "ask")
        asked = await until_status(client, task_id, "input_required")
        ((key, request),) = asked["inputRequests"].items()
        assert (request["method"], request["params"]["mode"]) == ("elicitation/create", "form")
        answers: dict[str, Any] = {
            "other": {"action": "accept"},
            key: {"action": "accept", "content": {"answer": "red"}},
        }
        update = UpdateTask(params=UpdateParams(task_id=task_id, input_responses=answers))
        assert (await client.session.send_request(update, STATE))["resultType"] == "complete"
        done = await until_status(client, task_id, "completed")
        assert done["result"]["content"][0]["text"] == "painted red"
        await client.session.send_request(update, STATE)  # a repeated answer is no error


async def test_a_cancelled_task_ends_at_its_agent(office: Office) -> None:
    office.clerk.released.clear()
    office.clerk.cancelled.clear()
    async with mcp_client(office.mesh, OPERATOR, tasks=True) as client:
        task_id = await begin(client, "wait")
        cancel = CancelTask(params=TaskParams(task_id=task_id))
        acknowledged = await client.session.send_request(cancel, STATE)
        assert "status" not in acknowledged and acknowledged["resultType"] == "complete"
        assert (await until_status(client, task_id, "cancelled"))["status"] == "cancelled"
        await client.session.send_request(cancel, STATE)  # once more is no error
    await asyncio.wait_for(office.clerk.cancelled.wait(), 10)


async def test_a_cancelled_call_cancels_its_task(office: Office) -> None:
    office.clerk.released.clear()
    office.clerk.cancelled.clear()
    office.clerk.waiting.clear()
    async with mcp_client(office.mesh, OPERATOR, tasks=True) as client:
        call = asyncio.create_task(client.call_tool("clerk", {"goal": "wait"}))
        await asyncio.wait_for(office.clerk.waiting.wait(), 10)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    await asyncio.wait_for(office.clerk.cancelled.wait(), 10)


async def test_methods_of_tasks_need_the_extension_and_a_known_task(office: Office) -> None:
    async with mcp_client(office.mesh, OPERATOR) as client:
        with pytest.raises(MCPError) as missing:
            await read(client, "x")
        assert missing.value.code == types.MISSING_REQUIRED_CLIENT_CAPABILITY
        assert missing.value.data == {"requiredCapabilities": {"extensions": {TASKS: {}}}}
    async with mcp_client(office.mesh, OPERATOR, tasks=True) as client:
        with pytest.raises(MCPError, match="Task not found") as unknown:
            await read(client, "x")
        assert unknown.value.code == types.INVALID_PARAMS


async def test_any_replica_answers_for_a_task(office: Office) -> None:
    office.clerk.released.clear()
    other = LocalService(open_gateway, **settings_for(office.mesh.mesh))
    await other.start()
    try:
        async with mcp_client(office.mesh, OPERATOR, tasks=True) as client:
            task_id = await begin(client, "wait")
        url = f"http://{other.address}/mcp"
        async with mcp_client(office.mesh, OPERATOR, tasks=True, url=url) as client:
            assert (await read(client, task_id))["status"] == "working"
            office.clerk.released.set()
            assert (await until_status(client, task_id, "completed"))["status"] == "completed"
    finally:
        await other.stop()


async def test_a_client_listens_to_tasks_runs_and_lists(office: Office) -> None:
    async with mcp_client(office.mesh, OPERATOR, tasks=True) as client:
        task_id = await begin(client, "ask")
    heads = {
        **office.mesh.headers(OPERATOR),
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "subscriptions/listen",
    }
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"extensions": {TASKS: {}}, "elicitation": {}},
    }
    wanted = {
        "toolsListChanged": True,
        "taskIds": [task_id, "x"],
        "resourceSubscriptions": [f"archon://runs/{task_id}"],
    }
    body = {
        "jsonrpc": "2.0",
        "id": 7,
        "method": "subscriptions/listen",
        "params": {"notifications": wanted, "_meta": meta},
    }
    seen: list[dict[str, Any]] = []
    async with (
        office.mesh.http(OPERATOR) as http,
        http.stream("POST", "/mcp", json=body, headers=heads) as response,
        mcp_client(office.mesh, OPERATOR, tasks=True) as client,
    ):
        assert response.status_code == 200
        async for line in response.aiter_lines():
            if not line.startswith("data: "):
                continue
            message = json.loads(line.removeprefix("data: "))
            seen.append(message)
            if message["method"] == "notifications/subscriptions/acknowledged":
                honoured = message["params"]["notifications"]
                assert (honoured["taskIds"], honoured["toolsListChanged"]) == ([task_id], True)
            if message["method"] != "notifications/tasks":
                continue
            if message["params"]["status"] == "input_required":
                (key,) = message["params"]["inputRequests"]
                answers: dict[str, Any] = {key: {"action": "accept", "content": {"answer": "red"}}}
                await client.session.send_request(
                    UpdateTask(params=UpdateParams(task_id=task_id, input_responses=answers)), STATE
                )
            if message["params"]["status"] == "completed":
                break
    assert seen[-1]["params"]["result"]["content"][0]["text"] == "painted red"
    assert all(each["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] == 7 for each in seen)
    assert any(each["method"] == "notifications/resources/updated" for each in seen)


async def test_a_task_survives_the_death_of_gateway_and_orchestrator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clerk = Clerk()
    async with gateway_mesh(tmp_path, monkeypatch) as mesh, clerk.server(mesh):
        async with mcp_client(mesh, OPERATOR, tasks=True) as client:
            task_id = await begin(client, "wait")
        await asyncio.wait_for(clerk.waiting.wait(), 10)
        await mesh.gateway.kill()
        await mesh.mesh.orchestrator.kill()
        await mesh.mesh.orchestrator.start()
        await mesh.gateway.start()
        async with mcp_client(mesh, OPERATOR, tasks=True) as client:
            assert (await read(client, task_id))["status"] == "working"
            clerk.released.set()
            assert (await until_status(client, task_id, "completed"))["status"] == "completed"


async def test_an_agent_uses_the_mesh_as_an_mcp_server_with_tasks(office: Office) -> None:
    async def answer(question: PersonQuestion) -> str:
        assert "Which colour?" in question.text
        return '{"answer": "red"}'

    headers = {"Authorization": office.mesh.headers(OPERATOR)["authorization"]}
    source = McpToolSource("mesh", url=f"{office.mesh.url}/mcp", headers=headers, may_ask=True)
    async with source:
        registry = ToolRegistry()
        source.register(registry)
        with answered_by(answer):
            result = (await ToolExecutionEngine(registry).run("mesh.clerk", {"goal": "ask"})).result
        assert (result.ok, result.content) == (True, "painted red")
