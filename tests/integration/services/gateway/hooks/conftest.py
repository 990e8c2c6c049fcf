"""A client of an operator, and a sender, for tests of hooks."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from archon.client import Client
from tests.fixtures.http_gateway import GatewayMesh
from tests.integration.services.gateway.hooks.sending import BODY, Send, client


@pytest.fixture
async def hooks(served: GatewayMesh) -> AsyncIterator[Client]:
    """A client of an operator; its hooks are removed after the test."""
    async with client(served) as made:
        yield made
        for hook in await made.hooks.list():
            await made.hooks.delete(hook.name)


@pytest.fixture
async def post(served: GatewayMesh) -> AsyncIterator[Send]:
    async with served.http() as http:

        async def send(name: str, headers: dict[str, str], body: Any = BODY) -> httpx2.Response:
            return await http.post(f"/hooks/{name}", content=body, headers=headers)

        yield send
