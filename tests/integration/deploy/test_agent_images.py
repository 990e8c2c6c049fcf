"""The images of agents in each language: their steps build an agent that works in a mesh, and writes nothing."""

from __future__ import annotations

import asyncio
import shutil
import venv
from pathlib import Path
from typing import Any, Final

import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from archon.registry import RegistryClient
from archon.types import TaskState
from archon_services.testing.in_process import InProcessMesh
from tests.fixtures.ports import free_ports
from tests.fixtures.require import missing
from tests.fixtures.waiting import eventually
from tests.integration.deploy.image_steps import Build, Stage
from tests.unit.deploy.manifests import ROOT

pytestmark = pytest.mark.search

ROLES: Final = {"python": "requirements", "go": "designer", "typescript": "implementer", "java": "reviewer"}
NEEDS: Final = {"python": (), "go": ("go",), "typescript": ("node", "npm"), "java": ("java", "mvn")}


def files_of(root: Path) -> dict[str, tuple[int, int]]:
    """Returns the size and the time of each file below a folder."""
    found = {path: path.lstat() for path in root.rglob("*")}
    return {str(path): (entry.st_size, entry.st_mtime_ns) for path, entry in found.items() if not path.is_dir()}


async def start(stage: Stage, mesh: InProcessMesh, port: int) -> asyncio.subprocess.Process:
    """Starts the program of an image as its container does, on another port."""
    environment = stage.environment(
        {
            "ARCHON_PORT": str(port),
            "ARCHON_HOST": "127.0.0.1",
            "ARCHON_REGISTRY": mesh.registry.address,
            "HOME": "/nonexistent",
        }
    )
    program = shutil.which(stage.entrypoint[0], path=environment["PATH"]) or stage.entrypoint[0]
    return await asyncio.create_subprocess_exec(program, *stage.entrypoint[1:], cwd=stage.folder, env=environment)


async def is_registered(mesh: InProcessMesh, role: str) -> bool:
    async with RegistryClient(mesh.registry.address) as registry:
        return bool(await registry.list_instances(role))


@pytest.mark.parametrize("language", ROLES)
async def test_the_steps_of_an_image_build_an_agent_that_works_and_writes_nothing(
    language: str, tmp_path: Path
) -> None:
    for program in NEEDS[language]:
        if shutil.which(program) is None:
            missing(language, f"{program} is not on PATH")
    programs = tmp_path / "base" / "bin" if language == "python" else None
    if programs is not None:  # the Python of the image, into which its build installs
        venv.create(tmp_path / "base", with_pip=True)
    build = Build(ROOT / "deploy" / "images" / f"{language}.Dockerfile", ROOT, tmp_path, programs)
    stage = await asyncio.to_thread(build.run)
    assert (stage.user, stage.ports, stage.env["ARCHON_PORT"]) == ("10001:10001", ["7110"], "7110")
    shutil.rmtree(build.stages["build"].root)  # the agent needs nothing of the stage before
    before = files_of(stage.root)
    [port] = free_ports(1)
    (tmp_path / "mesh").mkdir()
    async with InProcessMesh(tmp_path / "mesh") as mesh:
        agent = await start(stage, mesh, port)
        try:
            await eventually(lambda: is_registered(mesh, ROLES[language]), 30.0)
            run = (await mesh.client.submit("a library", roles=[ROLES[language]], wait=30)).run
            assert run.state is TaskState.COMPLETED
            async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
                health: Any = health_pb2_grpc.HealthStub(channel)
                assert (await health.Check(health_pb2.HealthCheckRequest(), timeout=5)).status == 1
        finally:
            agent.terminate()
            assert await asyncio.wait_for(agent.wait(), 20.0) in (0, 143), "SIGTERM drains"
    assert files_of(stage.root) == before
