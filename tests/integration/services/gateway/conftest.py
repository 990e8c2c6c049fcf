"""A mesh with an HTTP gateway, shared by a module."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.fixtures.http_gateway import GatewayMesh, gateway_mesh


@pytest_asyncio.fixture(scope="module")
async def served(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[GatewayMesh]:
    """A mesh whose calls need tokens, and its HTTP gateway."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        async with gateway_mesh(Path(tmp_path_factory.mktemp("gateway")), monkeypatch) as mesh:
            yield mesh
