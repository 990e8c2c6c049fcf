"""Faults of server-sent events that others have reported, tried against the streams of all rooms."""

from __future__ import annotations

import asyncio
import ctypes
import json
import socket
import struct
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from archon import AgentServer, TaskContext
from archon_services.gateway import connections
from archon_services.gateway.events.frames import RETRY, first_frame
from archon_services.gateway.front import body
from archon_services.gateway.watches import batches
from tests.fixtures.agui_mesh import input_of, user
from tests.fixtures.http_gateway import OPERATOR, ORCHESTRATOR, VIEWER, GatewayMesh, gateway_mesh, watching
from tests.fixtures.waiting import until

ENDS: Final = "\u2028\u2029\x85"
"""Characters at which Python and others end a line, and the standard of server-sent events does not."""

_SO_ATTACH_FILTER: Final = 26


async def raw(served: GatewayMesh, caller: Any, request: str, *, end: bytes = b"") -> bytes:
    """Sends the head of a request. Returns what comes until `end`, or until the gateway closes the connection."""
    host, _, port = served.gateway.address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=2**24)
    try:
        token = served.headers(caller)["authorization"]
        writer.write(request.replace("\r\n", f"\r\nhost: localhost\r\nauthorization: {token}\r\n", 1).encode())
        async with asyncio.timeout(10):
            return await (reader.readuntil(end) if end else reader.read(-1))
    finally:
        writer.transport.abort()


def chunks_of(response: bytes) -> list[bytes]:
    """Returns the chunks of a response (RFC 9112, section 7.1)."""
    found, rest = [], response.partition(b"\r\n\r\n")[2]
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        found.append(rest[: int(size, 16)])
        rest = rest[int(size, 16) + 2 :]
    return found


async def test_the_number_of_the_last_event_is_checked(served: GatewayMesh) -> None:
    async with served.http(OPERATOR) as http:
        for text in ("9" * 19, "9" * 5_000, "-1", "0x1", "1.5", "undefined"):
            for answer in (
                await http.get("/events/runs/x", headers={"last-event-id": text}),
                await http.get("/events/registry", params={"after": text}),
            ):
                assert (answer.status_code, answer.json()["code"]) == (400, "invalid_argument"), text[:30]


async def test_numbers_that_no_browser_counts_to_are_kept(served: GatewayMesh) -> None:
    """A number above 2**53 comes back as a browser has read it: as a text, without loss."""
    async with (
        served.http(OPERATOR) as http,
        watching(http, "/events/registry", {"last-event-id": str(2**53 + 1)}) as reader,
    ):
        _, number, change = await reader.next()
    assert change["snapshot"] and change["revision"] == number, "an unknown number begins with the whole state"


async def test_the_header_of_a_browser_counts_before_the_address(served: GatewayMesh) -> None:
    """A browser connects again with the address that it had at first."""
    async with served.http(OPERATOR) as http:
        run_id = await served.submit(http, wait="10s")
        async with watching(http, f"/events/runs/{run_id}?after=1", {"last-event-id": "3"}) as reader:
            assert (await reader.next())[1] == "4"


@pytest.mark.slow
async def test_no_event_is_broken_by_the_end_of_a_line(served: GatewayMesh) -> None:
    text = f"one{ENDS}two\r\n\vthree \ufeff\U0001f600"
    rpc = {"jsonrpc": "2.0", "id": 1}
    message = {"messageId": uuid.uuid4().hex, "role": "ROLE_USER", "parts": [{"text": text}]}
    modern = {"_meta": {"progressToken": 1, "io.modelcontextprotocol/protocolVersion": "2025-11-25"}}
    call = {"name": "echo", "arguments": {"goal": text}, **modern}
    events = {
        "accept": "application/json, text/event-stream",
        "a2a-version": "1.0",
        "mcp-protocol-version": "2025-11-25",
    }
    async with served.http(OPERATOR, headers=events) as http:
        run_id = await served.submit(http, text, wait="10s")
        answers = {
            "events": await http.get(f"/events/runs/{run_id}"),
            "AG-UI": await http.post("/agui/echo", json=input_of(user(text))),
            "A2A": await http.post(
                "/a2a/roles/echo", json={**rpc, "method": "SendStreamingMessage", "params": {"message": message}}
            ),
            "MCP": await http.post("/mcp", json={**rpc, "method": "tools/call", "params": call}),
        }
    for name, answer in answers.items():
        assert answer.headers["content-type"].startswith("text/event-stream"), (name, answer.text)
        assert not any(end in answer.text for end in ENDS), name
        assert not answer.content.startswith(b"\xef\xbb\xbf"), "no byte order mark"
        lines = [line.removeprefix("data:").strip() for line in answer.text.splitlines() if line.startswith("data:")]
        data = [json.loads(line) for line in lines if line]
        assert data and any(text in each for each in texts_in(data)), name


def texts_in(content: Any) -> list[str]:
    """Returns all texts in a JSON value."""
    if isinstance(content, str):
        return [content]
    values = content.values() if isinstance(content, Mapping) else content if isinstance(content, list) else ()
    return [text for value in values for text in texts_in(value)]


@pytest.mark.slow
async def test_each_chunk_has_whole_events(served: GatewayMesh) -> None:
    """Clients that decode each chunk by itself would break a character that lies in two."""
    async with served.http(OPERATOR) as http:
        run_id = await served.submit(http, "\U0001f600größe" * 30_000, wait="10s")
    response = await raw(served, OPERATOR, f"GET /events/runs/{run_id} HTTP/1.1\r\nconnection: close\r\n\r\n")
    *chunks, last = chunks_of(response)
    assert last == b"" and len(chunks) > 2
    for chunk in chunks:
        assert chunk.decode().endswith("\n\n")


@pytest.mark.parametrize(
    "path",
    [
        "/events/runs/{}",
        "/events/registry",
        pytest.param("/a2a/tasks/{}:subscribe", marks=pytest.mark.slow),
    ],
)
async def test_a_request_for_the_headers_opens_no_stream(served: GatewayMesh, path: str) -> None:
    """Monitors and link checkers ask with HEAD: the connection is free afterwards."""
    release = asyncio.Event()

    async def wait(task: TaskContext) -> str:
        await release.wait()
        return "done"

    agent = AgentServer("patient", handler=wait, settings=served.mesh.agent_settings())
    async with agent, served.http(OPERATOR, headers={"a2a-version": "1.0"}) as http:
        address = path.format(await served.submit(http, roles=["patient"]))
        async with asyncio.timeout(5):
            head = await http.head(address)
            assert (head.status_code, head.headers["x-accel-buffering"]) == (200, "no")
            assert head.headers["content-type"].startswith("text/event-stream")
            assert (await http.get("/session")).status_code == 200
        release.set()


async def test_a_proxy_of_http_1_0_gets_a_stream_that_ends(served: GatewayMesh) -> None:
    """Such as nginx without `proxy_http_version 1.1`, which asks for no chunks."""
    async with served.http(OPERATOR) as http:
        run_id = await served.submit(http, wait="10s")
    response = await raw(served, OPERATOR, f"GET /events/runs/{run_id} HTTP/1.0\r\nconnection: keep-alive\r\n\r\n")
    head, _, stream = response.partition(b"\r\n\r\n")
    assert b"transfer-encoding" not in head.lower() and b"connection: close" in head.lower()
    assert stream.startswith(b"retry: ") and stream.endswith(b"event: end\ndata: {}\n\n")


async def test_a_wrong_method_is_a_typed_error(served: GatewayMesh) -> None:
    async with served.http(OPERATOR) as http:
        for method, path in (("POST", "/events/registry"), ("OPTIONS", "/events/runs/x"), ("GET", "/logout")):
            answer = await http.request(method, path)
            assert (answer.status_code, answer.json()["code"]) == (405, "invalid_argument")
            assert answer.headers["allow"]


def test_viewers_do_not_come_back_at_the_same_moment() -> None:
    waits = {int(first_frame().decode().removeprefix("retry: ")) for _ in range(50)}
    assert len(waits) > 10 and RETRY[0] <= min(waits) <= max(waits) <= RETRY[1]


@pytest.mark.slow
async def test_a_viewer_whose_host_is_gone_is_cut_off(served: GatewayMesh, monkeypatch: pytest.MonkeyPatch) -> None:
    """A laptop that sleeps acknowledges nothing, and sends no end: heartbeats alone would not fill the buffer."""
    if not hasattr(socket, "TCP_USER_TIMEOUT"):
        pytest.skip("the system has no bound for what is not acknowledged")
    lost: list[Exception | None] = []
    ended = connections.TimedProtocol.connection_lost

    def connection_lost(self: connections.TimedProtocol, error: Exception | None) -> None:
        if self.scope is not None and self.scope["path"] == "/events/registry":
            lost.append(error)
        ended(self, error)

    monkeypatch.setattr(connections.TimedProtocol, "connection_lost", connection_lost)
    monkeypatch.setattr(connections, "STALLED_SECONDS", 0.1)
    monkeypatch.setattr(batches, "CHECKED_EVERY", 0.005)  # a heartbeat each 75 ms
    host, _, port = served.gateway.address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    token = served.headers(OPERATOR)["authorization"]
    writer.write(f"GET /events/registry HTTP/1.1\r\nhost: localhost\r\nauthorization: {token}\r\n\r\n".encode())
    await reader.readuntil(b"data:")
    _drop_all(writer.get_extra_info("socket"))
    try:
        await until(lambda: lost != [])
    finally:
        writer.transport.abort()
    assert isinstance(lost[0], TimeoutError)


async def test_small_pieces_are_sent_at_once(served: GatewayMesh, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without TCP_NODELAY an answer in two pieces waits 40 ms for the acknowledgement of the first one."""
    made: list[int] = []
    begun = connections.TimedProtocol.connection_made

    def connection_made(self: connections.TimedProtocol, transport: asyncio.Transport) -> None:
        made.append(transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        begun(self, transport)

    monkeypatch.setattr(connections.TimedProtocol, "connection_made", connection_made)
    async with served.http(OPERATOR) as http:
        await http.get("/session")
    assert made == [1]


def _drop_all(connection: Any) -> None:
    """Has the system drop all that comes to a socket, so that it acknowledges nothing any more: as a host that is gone."""
    program = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0))  # BPF: return 0
    connection.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("HP", 1, ctypes.addressof(program)))


@pytest.mark.slow
async def test_a_page_elsewhere_reads_the_errors_of_the_guard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the header of its origin a page gets a network error in place of any status."""
    monkeypatch.setattr(body, "MAX_BODY", 1_000)
    page = {"origin": "https://app.example.com", "content-type": "application/json"}
    opened = gateway_mesh(tmp_path, monkeypatch, origins="https://app.example.com")
    async with opened as served, served.http(VIEWER, headers=page) as http:
        large = await http.post(f"{ORCHESTRATOR}/ListRuns", content=b"x" * 2_000)
        foreign = await http.get("/session", headers={"host": "evil.example"})
        plain = await http.post(
            f"{ORCHESTRATOR}/ListRuns", content=b"x" * 2_000, headers={"origin": "https://b.example"}
        )
    for answer, code in ((large, 400), (foreign, 403)):
        assert answer.status_code == code
        assert answer.headers["access-control-allow-origin"] == "https://app.example.com"
        assert answer.headers["vary"].lower() == "origin"
    assert "access-control-allow-origin" not in plain.headers


@pytest.mark.slow
async def test_a_client_that_still_sends_sees_why_its_body_is_refused(served: GatewayMesh) -> None:
    """A server that answers and closes resets the connection below a client that has not read yet."""
    async with served.http(OPERATOR) as http:
        for size in (body.MAX_BODY + 1, 8_000_000, 20_000_000):
            answer = await http.post(f"{ORCHESTRATOR}/ListRuns", content=b" " * size)
            assert (answer.status_code, answer.json()["details"][0]["debug"]["reason"]) == (400, "MESSAGE_TOO_LARGE")
        assert (await http.get("/session")).status_code == 200


async def test_a_slash_too_many_leads_to_a_path(served: GatewayMesh) -> None:
    """Behind a proxy, scheme and host of the gateway are not those that the browser has."""
    async with served.http(OPERATOR) as http:
        for path in ("/events/registry/", "/mcp/", f"{ORCHESTRATOR}/ListRuns/"):
            answer = await http.post(path, json={})
            if answer.is_redirect:
                assert answer.headers["location"] == path.rstrip("/")
