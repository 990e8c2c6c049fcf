"""A mesh with the role `clerk` behind an HTTP gateway, shared by a module."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.fixtures.a2a_mesh import Clerk
from tests.fixtures.hook_server import HookServer
from tests.fixtures.http_gateway import GatewayMesh, gateway_mesh


@dataclass
class Office:
    """The mesh, its clerk, and a receiver of webhooks that the gateway may reach."""

    mesh: GatewayMesh
    clerk: Clerk
    hook: HookServer


@pytest_asyncio.fixture(scope="module")
async def office(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Office]:
    """Calls need tokens."""
    folder = Path(tmp_path_factory.mktemp("a2a"))
    clerk = Clerk()
    with pytest.MonkeyPatch.context() as monkeypatch:
        async with HookServer() as hook:
            settings: dict[str, Any] = {"a2a_push_hosts": f"127.0.0.1:{hook.port}", "requests_per_second": 10_000.0}
            async with gateway_mesh(folder, monkeypatch, **settings) as mesh, clerk.server(mesh):
                yield Office(mesh, clerk, hook)
