"""A mesh with the role `painter` behind an HTTP gateway, shared by a module."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from tests.fixtures.agui_mesh import Painter
from tests.fixtures.http_gateway import OPERATOR, ORCHESTRATOR, GatewayMesh, gateway_mesh


@dataclass
class Studio:
    """The mesh and its painter."""

    mesh: GatewayMesh
    painter: Painter


@pytest_asyncio.fixture(scope="module")
async def studio(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Studio]:
    """Calls need tokens."""
    painter = Painter()
    with pytest.MonkeyPatch.context() as monkeypatch:
        async with (
            gateway_mesh(Path(tmp_path_factory.mktemp("agui")), monkeypatch, requests_per_second=10_000.0) as mesh,
            painter.server(mesh),
        ):
            yield Studio(mesh, painter)
            async with mesh.http(OPERATOR) as http:  # a question keeps its attempt, for which the painter would wait
                asking = {"states": ["TASK_STATE_INPUT_REQUIRED"], "pageSize": 100}
                for run in (await http.post(f"{ORCHESTRATOR}/ListRuns", json=asking)).json().get("runs", ()):
                    await http.post(f"{ORCHESTRATOR}/CancelRun", json={"runId": run["runId"]})
