"""A mesh with the roles `clerk` and `finder` behind an HTTP gateway, shared by a module."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from archon import AgentServer, TaskContext
from archon.agent import Answer
from archon.registry import Profile, Tool
from archon.tools.shared_tool import SharedTool, SharedToolCall
from archon.types.part import Part
from tests.fixtures.a2a_mesh import Clerk
from tests.fixtures.http_gateway import OPERATOR, ORCHESTRATOR, GatewayMesh, gateway_mesh

PIXEL = b"\x89PNG-not-really"


@dataclass
class Office:
    """The mesh and its clerk."""

    mesh: GatewayMesh
    clerk: Clerk

    async def run(self, run_id: str) -> dict[str, Any]:
        """Returns a run as the orchestrator has it."""
        async with self.mesh.http(OPERATOR) as http:
            answer = await http.post(f"{ORCHESTRATOR}/GetRun", json={"runId": run_id})
        found: dict[str, Any] = answer.json()["run"]
        return found

    async def cancel(self, run_id: str) -> None:
        """Cancels a run that waits for a person, so that its agent ends at once."""
        async with self.mesh.http(OPERATOR) as http:
            await http.post(f"{ORCHESTRATOR}/CancelRun", json={"runId": run_id})


async def halve(arguments: Mapping[str, Any], call: SharedToolCall) -> dict[str, float]:
    call.report("halving")
    return {"half": arguments["number"] / 2}


async def find(task: TaskContext) -> Answer:
    if task.text == "a picture":
        picture = Part(raw=PIXEL, media_type="image/png", filename="dot.png")
        return Answer(parts=[Part(text="here"), picture, Part(raw=b"a,b\n", media_type="text/csv")])
    return Answer(f"found {task.text}")


def finder(mesh: GatewayMesh) -> AgentServer:
    schema = json.dumps({"type": "object", "properties": {"number": {"type": "number"}}, "required": ["number"]})
    return AgentServer(
        "finder",
        handler=find,
        profile=Profile(prompt_template="books about {topic} in {language}"),
        shared_tools=[SharedTool(Tool("halve", "Halves a number.", schema), halve)],
        settings=mesh.mesh.agent_settings(),
    )


@pytest_asyncio.fixture(scope="module")
async def office(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Office]:
    """Calls need tokens."""
    folder = Path(tmp_path_factory.mktemp("mcp"))
    clerk = Clerk()
    with pytest.MonkeyPatch.context() as monkeypatch:
        async with (
            gateway_mesh(folder, monkeypatch, requests_per_second=10_000.0) as mesh,
            clerk.server(mesh),
            finder(mesh),
        ):
            yield Office(mesh, clerk)
