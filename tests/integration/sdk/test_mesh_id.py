"""Members of two meshes on one machine: each mesh refuses those of the other, and lets in callers without an id."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from archon import errors, mesh_id
from archon.registry import Registration, RegistryClient
from tests.fixtures.programs import program
from tests.fixtures.services import ServiceProcess
from tests.fixtures.waiting import until

AGENT = """
import sys
from archon.agent import AgentServer
agent = AgentServer("poet")
@agent.task
async def work(task):
    return "done"
sys.exit(agent.run())
"""
SESSION = "/archon.api.agent.v1.AgentService/Session"
MINE, OTHER = "aaaaaaaaaaaa", "bbbbbbbbbbbb"
SENTENCE = f"this is a member of the mesh {MINE}, and the caller belongs to the mesh {OTHER}"


@pytest.fixture(scope="module")
async def registry(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    """The address of a registry of the mesh MINE."""
    folder = tmp_path_factory.mktemp("registry")
    process = ServiceProcess("archon_services.registry", folder, ARCHON_ETCD="memory", ARCHON_MESH=MINE)
    yield await process.start()
    await process.stop()


def variables(folder: Path, **own: str) -> dict[str, str]:
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("ARCHON_")}
    return {**inherited, "ARCHON_READY_FILE": str(folder / "ready"), **own}


async def test_an_agent_of_another_mesh_ends_with_a_sentence(registry: str, tmp_path: Path) -> None:
    environment = variables(tmp_path, ARCHON_REGISTRY=registry, ARCHON_MESH=OTHER)
    async with program(["-c", AGENT], environment, tmp_path / "log") as child:
        assert await child.wait(30) == 1
        assert SENTENCE in child.errors


@pytest.mark.parametrize("own", [{}, {"ARCHON_MESH": MINE}, {"ARCHON_MESH": ""}], ids=["without", "same", "empty"])
async def test_an_agent_of_this_mesh_or_of_none_is_let_in(registry: str, tmp_path: Path, own: dict[str, str]) -> None:
    async with program(["-c", AGENT], variables(tmp_path, ARCHON_REGISTRY=registry, **own), tmp_path / "log") as child:
        await until(lambda: (tmp_path / "ready").exists() or child.returncode is not None, 30)
        assert child.returncode is None, child.errors
        async with RegistryClient(registry) as client:
            addresses = [instance.address for instance in await client.list_instances("poet")]
        assert (tmp_path / "ready").read_text() in addresses


async def test_a_service_of_another_mesh_cannot_watch(registry: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(mesh_id.VARIABLE, OTHER)
    async with RegistryClient(registry) as client:
        with pytest.raises(errors.FailedPrecondition, match=SENTENCE):
            await client.register(Registration("clerk", address="127.0.0.1:1"))
        async with aclosing(client.watch()) as changes:
            with pytest.raises(errors.FailedPrecondition, match=SENTENCE):
                await anext(changes)
        assert await client.list_instances("clerk") == [], "callers that are no members may look"


@pytest.mark.parametrize(("given", "code"), [(OTHER, grpc.StatusCode.FAILED_PRECONDITION), (MINE, None), ("", None)])
async def test_an_agent_refuses_sessions_of_another_mesh(
    tmp_path: Path, given: str, code: grpc.StatusCode | None
) -> None:
    async with program(["-c", AGENT], variables(tmp_path, ARCHON_MESH=MINE), tmp_path / "log") as child:
        await until(lambda: (tmp_path / "ready").exists() or child.returncode is not None, 30)
        async with grpc.aio.insecure_channel((tmp_path / "ready").read_text()) as channel:
            call: Any = channel.stream_stream(SESSION)(iter([]), metadata=((mesh_id.KEY, given),) if given else ())
            try:
                async for _ in call:
                    pass
                ended: grpc.StatusCode | None = None
            except grpc.aio.AioRpcError as error:
                ended = error.code()
    assert (ended == grpc.StatusCode.FAILED_PRECONDITION) is (code is not None)
