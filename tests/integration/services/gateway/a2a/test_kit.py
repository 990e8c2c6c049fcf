"""The protocol's compatibility kit against a mesh, if ARCHON_A2A_KIT names a checkout with its environment in .venv."""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path
from typing import Final

import pytest

from archon.agent import AgentServer
from archon_services.testing.in_process import InProcessMesh
from archon_services.testing.local_service import LocalService
from tests.fixtures.a2a_scenarios import scenario
from tests.fixtures.http_gateway import open_gateway, settings_for
from tests.fixtures.require import missing

pytestmark = pytest.mark.search

PAGE: Final = Path(__file__).parents[5] / "docs" / "a2a.md"
BINDINGS: Final = ("grpc", "jsonrpc", "http_json")


def expected() -> set[str]:
    """The tests that fail, as the page lists them."""
    names: set[str] = set()
    for name, count in re.findall(r"^\| `([^`]+)`( \(3 bindings\))? \| ", PAGE.read_text(), re.M):
        if not count:
            names.add(name)
        elif name.endswith("...]"):
            names |= {name.replace("...", each) for each in BINDINGS}
        else:
            names |= {f"{name}[{each}]" for each in BINDINGS}
    return {name for name in names if "test_" in name}


@pytest.mark.timeout(600)
async def test_only_the_listed_tests_of_the_kit_fail(tmp_path: Path) -> None:
    kit = Path(os.environ.get("ARCHON_A2A_KIT", ""))
    python = kit / ".venv" / "bin" / "python"
    if not os.environ.get("ARCHON_A2A_KIT") or not python.exists():
        missing("a2a-kit", "ARCHON_A2A_KIT names no checkout of the compatibility kit with a .venv")
    async with InProcessMesh(tmp_path) as mesh:
        gateway = LocalService(open_gateway, **settings_for(mesh, a2a_push_hosts="localhost", requests_per_second=1e4))
        await gateway.start()
        # The kit calls the agent of the mesh itself, for it knows no field `tenant` of gRPC: there is one role to choose.
        async with AgentServer("tck", handler=scenario, max_tasks=100, settings=mesh.agent_settings()):
            process = await asyncio.create_subprocess_exec(
                str(python), "run_tck.py", "--sut-host", f"http://{gateway.address}", "--level", "must",
                cwd=kit, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
                env={**os.environ, "NO_PROXY": "localhost,127.0.0.1"},
            )  # fmt: skip
            try:
                async with asyncio.timeout(500):
                    output, _ = await process.communicate()
            finally:
                if process.returncode is None:
                    process.kill()
                    await process.wait()
                await gateway.stop()
    text = output.decode()
    print(text.strip().rpartition("\n")[2])
    failed = set(re.findall(r"^(?:FAILED|ERROR) [^ :]+::(.+?)(?: - .*)?$", text, re.M))
    assert failed == expected(), text[-3_000:]
    assert re.search(r"\d{3} passed", text), text[-500:]
