"""The MCP server of an agent's tools, with a client of the same process."""

from __future__ import annotations

import asyncio
import socket
from typing import Any
from urllib.parse import urlsplit

import pytest
from mcp import Client
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from archon_mesh.tools import ToolExecutionEngine, ToolRegistry, tool
from archon_mesh.tools.mcp.serving.server import MAX_CALLS, create_server, serve_http
from archon_mesh.tools.permissions import ToolPermissions


async def test_calls_of_all_clients_at_the_same_time_are_bounded() -> None:
    running, most = 0, 0
    go_on = asyncio.Event()

    @tool
    async def work() -> str:
        """Works until it may go on."""
        nonlocal running, most
        running += 1
        most = max(most, running)
        if running == MAX_CALLS:
            go_on.set()
        await go_on.wait()
        running -= 1
        return "done"

    async with Client(create_server("s", ToolExecutionEngine(ToolRegistry([work])))) as client:
        results = await asyncio.gather(*(client.call_tool("work", {}) for _ in range(MAX_CALLS + 10)))
    assert not any(result.is_error for result in results)
    assert most == MAX_CALLS


async def test_a_tool_that_the_policy_denies_does_not_exist_for_a_client() -> None:
    @tool
    async def work() -> str:
        """Works."""
        return "done"

    @tool
    async def wipe() -> str:
        """Deletes everything."""
        return "gone"

    engine = ToolExecutionEngine(ToolRegistry([work, wipe]), permissions=ToolPermissions(denied=frozenset({"wipe"})))
    async with Client(create_server("s", engine)) as client:
        assert [each.name for each in (await client.list_tools()).tools] == ["work"]
        for name in ("wipe", "other"):
            result = await client.call_tool(name, {})
            assert result.is_error
            assert result.content[0].text.startswith(f"no tool '{name}'")  # type: ignore[union-attr]
            assert "work" not in str(result.content)


async def test_a_client_can_connect_as_soon_as_the_url_is_known() -> None:
    urls, stopping = list[str](), asyncio.Event()

    def connect(url: str) -> None:
        urls.append(url)
        address = urlsplit(url)
        with socket.create_connection((str(address.hostname), int(address.port or 0)), timeout=10):
            stopping.set()

    async with asyncio.timeout(60):
        await serve_http(create_server("s", ToolExecutionEngine(ToolRegistry([]))), 0, connect, stopping)
    assert len(urls) == 1


async def test_small_pieces_are_sent_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without TCP_NODELAY an answer in two pieces waits 40 ms for the acknowledgement of the first one."""
    stopping, made = asyncio.Event(), list[int]()
    protocol: Any = AutoHTTPProtocol
    begun = protocol.connection_made

    def connection_made(self: Any, transport: asyncio.Transport) -> None:
        made.append(transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        begun(self, transport)
        stopping.set()

    monkeypatch.setattr(protocol, "connection_made", connection_made)

    def connect(url: str) -> None:
        address = urlsplit(url)
        clients.append(socket.create_connection((str(address.hostname), int(address.port or 0)), timeout=10))

    clients: list[socket.socket] = []
    async with asyncio.timeout(60):
        await serve_http(create_server("s", ToolExecutionEngine(ToolRegistry([]))), 0, connect, stopping)
    clients[0].close()
    assert made == [1]
