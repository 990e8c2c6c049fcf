"""The commands of docs/http.md run against a mesh as they are printed."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
from pathlib import Path
from typing import Final

import pytest

from archon import AgentServer, TaskContext
from archon.agent import AgentSettings
from archon.principal import Kind, Principal
from tests.fixtures.http_gateway import GatewayMesh

PAGE: Final = (Path(__file__).parents[4] / "docs" / "http.md").read_text()
COMMANDS: Final = re.findall(r"```bash\n(.*?)```", PAGE, re.S)


async def _answer(task: TaskContext) -> str:
    return f"{task.role} has answered"


async def _printed(command: str, environment: dict[str, str]) -> str:
    process = await asyncio.create_subprocess_exec(
        "bash", "-c", command, env={**os.environ, **environment}, stdout=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(30):
        out, _ = await process.communicate()
    assert process.returncode == 0, command
    return out.decode()


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
async def test_the_commands_of_the_page_give_what_it_says(served: GatewayMesh) -> None:
    submit, runs, events, registry = COMMANDS
    header = served.headers(Principal(Kind.ADMIN, "ada"))["authorization"]
    environment = {"GATEWAY": served.url, "AUTH": f"Authorization: {header}", "RUN": ""}
    settings = AgentSettings(registry=served.mesh.registry.address)
    async with (
        AgentServer("first", handler=_answer, settings=settings),
        AgentServer("last", handler=_answer, depends_on=["first"], settings=settings),
    ):
        run = json.loads(await _printed(submit, environment))["run"]
        assert run["answers"][0]["parts"][0]["text"] == "last has answered"
        environment["RUN"] = run["runId"]
        listed, streamed, changes = await asyncio.gather(
            _printed(runs, environment), _printed(events, environment), _printed(registry, environment)
        )
    assert run["runId"] in [each["runId"] for each in json.loads(listed)["runs"]]
    assert streamed.startswith("retry: ")
    assert streamed.partition("\n\n")[2].startswith("id: 1\ndata: {")
    assert streamed.endswith("event: end\ndata: {}\n\n")
    assert '"snapshot":true' in changes
