"""Clients of revisions before 2026-07-28: sessions without state, questions and answers over any replica, and streams
that are resumed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2

from archon import AgentServer
from archon_services.testing.local_service import LocalService
from tests.fixtures.http_gateway import OPERATOR, STRANGER, open_gateway, settings_for
from tests.integration.services.gateway.mcp.conftest import Office

ACCEPT = {"accept": "application/json, text/event-stream"}
VERSION = "2025-11-25"


@asynccontextmanager
async def replica(office: Office) -> AsyncIterator[str]:
    """Another gateway before the same mesh."""
    other = LocalService(open_gateway, **settings_for(office.mesh.mesh))
    await other.start()
    try:
        yield f"http://{other.address}/mcp"
    finally:
        await other.stop()


async def begin(http: httpx2.AsyncClient, **capabilities: Any) -> dict[str, str]:
    """Begins a session, and returns the headers of its requests."""
    info = {"name": "test", "version": "1"}
    params = {"protocolVersion": VERSION, "capabilities": capabilities, "clientInfo": info}
    body = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
    answer = await http.post("/mcp", json=body, headers=ACCEPT)
    assert answer.json()["result"]["protocolVersion"] == VERSION
    assert answer.json()["result"]["capabilities"]["tools"]["listChanged"]
    return {**ACCEPT, "mcp-session-id": answer.headers["mcp-session-id"], "mcp-protocol-version": VERSION}


def call(goal: str, number: int = 1, **meta: Any) -> dict[str, Any]:
    """Returns the message that calls the clerk."""
    params = {"name": "clerk", "arguments": {"goal": goal}, "_meta": meta}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


async def events_of(response: httpx2.Response) -> AsyncIterator[tuple[str, dict[str, Any]]]:
    """Yields the id and the message of each event."""
    assert response.status_code == 200
    name = ""
    async for line in response.aiter_lines():
        if line.startswith("id: "):
            name = line.removeprefix("id: ")
        elif line.startswith("data: ") and len(line) > len("data: "):
            yield name, json.loads(line.removeprefix("data: "))


async def test_a_session_is_served_by_any_replica_and_by_its_owner_alone(office: Office) -> None:
    async with office.mesh.http(OPERATOR) as http, replica(office) as url:
        headers = await begin(http)
        answer = await http.post(url, json=call("x"), headers={**headers, "accept": "application/json"})
        assert answer.json()["result"]["content"][0]["text"] == "did: x"
        stranger = await http.post("/mcp", json=call("x"), headers={**headers, **office.mesh.headers(STRANGER)})
        assert stranger.status_code == 404
        unknown = await http.post("/mcp", json=call("x"), headers={**headers, "mcp-session-id": "x"})
        assert unknown.status_code == 404
        assert (await http.delete("/mcp", headers=headers)).status_code == 405


async def test_an_answer_to_a_question_comes_to_another_replica(office: Office) -> None:
    async with office.mesh.http(OPERATOR) as http, replica(office) as url:
        headers = await begin(http, elicitation={})
        async with http.stream("POST", "/mcp", json=call("ask"), headers=headers) as response:
            async for _, message in events_of(response):
                if message.get("method") == "elicitation/create":
                    given = {"action": "accept", "content": {"answer": 5}}
                    body: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"], "result": given}
                    assert (await http.post(url, json=body, headers=headers)).status_code == 400
                    body["result"]["content"] = {"answer": "green"}
                    assert (await http.post(url, json=body, headers=headers)).status_code == 202
                elif "result" in message:
                    assert message["result"]["content"][0]["text"] == "painted green"
                    return
    raise AssertionError("the stream ended without the result")


async def test_a_stream_that_was_cut_off_goes_on_at_another_replica(office: Office) -> None:
    office.clerk.released.clear()
    async with office.mesh.http(OPERATOR) as http, replica(office) as url:
        headers = await begin(http)
        async with http.stream("POST", "/mcp", json=call("wait", 9, progressToken="p"), headers=headers) as response:
            events = events_of(response)
            place, first = await anext(events)
            assert first["method"] in ("notifications/progress", "notifications/message")
        office.clerk.released.set()  # the client has gone away, and the run goes on
        async with http.stream("GET", url, headers={**headers, "last-event-id": place}) as response:
            messages = [message async for _, message in events_of(response)]
    assert messages[-1]["id"] == 9
    assert messages[-1]["result"]["content"][0]["text"] == "released"


async def test_a_cancelled_request_cancels_its_run(office: Office) -> None:
    office.clerk.released.clear()
    office.clerk.cancelled.clear()
    async with office.mesh.http(OPERATOR) as http:
        headers = await begin(http)
        async with http.stream("POST", "/mcp", json=call("wait", 3, progressToken=1), headers=headers) as response:
            events = events_of(response)
            await anext(events)
            params = {"requestId": 3, "reason": "changed my mind"}
            body = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
            assert (await http.post("/mcp", json=body, headers=headers)).status_code == 202
            *_, (_, last) = [event async for event in events]
        assert last["error"]["message"] == "Request cancelled"
        await asyncio.wait_for(office.clerk.cancelled.wait(), 10)


async def test_a_client_without_a_session_or_streams_gets_json(office: Office) -> None:
    async with office.mesh.http(OPERATOR) as http:
        answer = await http.post("/mcp", json=call("x", 4), headers={"accept": "application/json"})
        assert answer.headers["content-type"] == "application/json"
        assert answer.json()["result"]["content"][0]["text"] == "did: x"
        slash = await http.post("/mcp/", json=call("x", 4), headers=ACCEPT)
        assert slash.status_code == 200
        for content, code in (("{", -32700), ("[]", -32600), ('{"id": 1}', -32600)):
            wrong = await http.post("/mcp", content=content, headers=ACCEPT)
            assert (wrong.status_code, wrong.json()["error"]["code"]) == (400, code)


async def test_the_stream_of_a_client_tells_it_that_the_tools_have_changed(office: Office, monkeypatch: Any) -> None:
    monkeypatch.setattr("archon_services.gateway.mcp.listening.LOOK", 0.02)
    monkeypatch.setattr("archon_services.gateway.agents.FRESH", 0.0)
    async with office.mesh.http(OPERATOR) as http:
        headers = await begin(http)
        async with http.stream("GET", "/mcp", headers=headers) as response:
            events = events_of(response)
            newcomer = AgentServer("newcomer", handler=office.clerk.handle, settings=office.mesh.mesh.agent_settings())
            async with newcomer:
                _, message = await asyncio.wait_for(anext(events), 10)
    assert message["method"] == "notifications/tools/list_changed"
