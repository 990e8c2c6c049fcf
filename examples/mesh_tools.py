"""A client of the protocol's own SDK calls a role of a mesh as a tool, and answers its question."""

from __future__ import annotations

import httpx2
from mcp import Client
from mcp.client.context import ClientRequestContext
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ElicitRequestParams, ElicitResult


async def person(context: ClientRequestContext, asked: ElicitRequestParams) -> ElicitResult:
    """Fills in the form of a question to a person."""
    return ElicitResult(action="accept", content={"answer": "blue"})


async def call(gateway: str, token: str, role: str, goal: str) -> str:
    """Has a role do something, and returns the text of its answer."""
    headers = {"authorization": f"Bearer {token}"} if token else {}
    async with httpx2.AsyncClient(headers=headers, trust_env=False, timeout=60) as http:
        transport = streamable_http_client(f"{gateway}/mcp", http_client=http)
        async with Client(transport, elicitation_callback=person) as client:
            result = await client.call_tool(role, {"goal": goal})
    return "".join(getattr(block, "text", "") for block in result.content)
