"""Calls of the tools that agents share. They are executed at their owners, on behalf of the caller."""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

import mcp_types as types

from archon import context
from archon.errors import ArchonError, InvalidArgument, NotFound, ResourceExhausted, Unavailable
from archon.tools.caller.client import ToolClient
from archon_services.gateway.mcp.catalogue import OfferedTool
from archon_services.gateway.mcp.client_line import ClientLine
from archon_services.gateway.mcp.errors import error_result
from archon_services.gateway.mesh_access import MeshAccess

EXECUTE: Final = "/archon.api.tool.v1.ToolService/ExecuteTool"
"""The RPC that a caller of a shared tool must be allowed to call."""

SECONDS: Final = 60.0
"""Seconds of a call."""

MAX_TENANTS: Final = 100
"""Tenants for which connections to owners are kept."""

MAX_LINES: Final = 100
"""Lines of progress of a call that wait for a slow client; further ones are dropped."""


class LentTools:
    """Calls shared tools. Close it. `access` says who calls; `registry` is host:port."""

    def __init__(self, access: MeshAccess, registry: str) -> None:
        self._access, self._registry = access, registry
        self._clients: OrderedDict[str, ToolClient] = OrderedDict()

    async def call(self, line: ClientLine, tool: OfferedTool, arguments: Mapping[str, Any]) -> types.CallToolResult:
        """Calls a tool. Its failures are results. Raises PermissionDenied if the policy does not let the caller do
        so."""
        request = line.request
        self._access.allowed(request.headers if request is not None else {}, EXECUTE)
        caller = self._access.visitor.caller
        lines: asyncio.Queue[str] = asyncio.Queue(MAX_LINES)

        def report(text: str) -> None:
            with suppress(asyncio.QueueFull):
                lines.put_nowait(text)

        telling = asyncio.create_task(_tell(line, lines), name="tell the progress of a shared tool")
        call = replace(context.current(), tenant=caller.tenant, identity=caller.identity)
        try:
            with context.serving(call):
                client = await self._client(caller.tenant)
                async with client.lease(tool.shared, role=tool.role) as leased:
                    result = await leased.execute(arguments, timeout=SECONDS, on_progress=report)
        except (InvalidArgument, NotFound, ResourceExhausted, Unavailable) as error:
            return error_result(error)
        finally:
            telling.cancel()
            await asyncio.wait([telling])
        if not result.ok:
            return types.CallToolResult(content=[types.TextContent(text=result.error_message)], is_error=True)
        content = result.content
        text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
        structured = content if isinstance(content, dict) else None
        return types.CallToolResult(content=[types.TextContent(text=text)], structured_content=structured)

    async def _client(self, tenant: str) -> ToolClient:
        """Returns the client of a tenant: a client remembers which tools it has found."""
        client = self._clients.get(tenant)
        if client is None:
            client = self._clients[tenant] = ToolClient(self._registry, instance_id="mcp")
        self._clients.move_to_end(tenant)
        while len(self._clients) > MAX_TENANTS:
            _, oldest = self._clients.popitem(last=False)
            await oldest.close()
        return client

    async def close(self) -> None:
        """Closes the clients of all tenants, which ends their leases."""
        clients, self._clients = list(self._clients.values()), OrderedDict()
        await asyncio.gather(*(client.close() for client in clients))


async def _tell(line: ClientLine, lines: asyncio.Queue[str]) -> None:
    number = 0
    with suppress(ArchonError, TimeoutError):
        while True:
            text = await lines.get()
            number += 1
            await line.tell(text, number)
