"""Processes on one machine reach each other by Unix sockets if ARCHON_SOCKETS names a folder, and by ports otherwise."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from archon.api.agent.v1 import agent_service_pb2 as pb
from archon.api.agent.v1 import agent_service_pb2_grpc as agent_grpc
from archon.channel import connect
from archon.local_sockets import nearest, socket_of
from archon.server import GrpcServer, Service


class Agent(agent_grpc.AgentServiceServicer):
    """Remembers where its callers come from."""

    def __init__(self) -> None:
        self.peers: list[str] = []

    async def Describe(self, request: pb.DescribeRequest, context: Any) -> pb.DescribeResponse:
        self.peers.append(context.peer())
        return pb.DescribeResponse()


@pytest.fixture
def agent() -> Agent:
    return Agent()  # type: ignore[abstract]  # it serves one method


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "s"
    path.mkdir(mode=0o700)
    monkeypatch.setenv("ARCHON_SOCKETS", str(path))
    return path


@asynccontextmanager
async def serving(agent: Agent) -> AsyncIterator[GrpcServer]:
    service = Service("archon.api.agent.v1.AgentService", agent_grpc.add_AgentServiceServicer_to_server, agent)
    server = GrpcServer([service])
    await server.start()
    yield server
    await server.stop(0)


@pytest.fixture
async def server(agent: Agent) -> AsyncIterator[GrpcServer]:
    async with serving(agent) as server:
        yield server


async def call(target: str) -> None:
    async with connect(target) as channel:
        stub: Any = agent_grpc.AgentServiceStub(channel)
        await stub.Describe(pb.DescribeRequest(), timeout=5)


async def test_a_client_reaches_a_server_of_its_machine_by_its_socket(
    folder: Path, agent: Agent, server: GrpcServer
) -> None:
    await call(server.address)
    await call(f"localhost:{server.port}")
    assert [peer.partition(":")[0] for peer in agent.peers] == ["unix", "unix"]


async def test_a_client_without_the_folder_uses_the_port(
    folder: Path, agent: Agent, server: GrpcServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ARCHON_SOCKETS")
    await call(server.address)
    assert agent.peers[0].startswith("ipv4:")


async def test_the_socket_of_a_killed_process_leads_nowhere(folder: Path) -> None:
    path = socket_of(5000)
    assert path is not None
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
        left.listen()
        assert nearest("127.0.0.1:5000") == f"unix:{path}"
    assert path.exists()
    assert nearest("127.0.0.1:5000") == "127.0.0.1:5000"


async def test_a_server_takes_the_place_of_a_killed_one(folder: Path, agent: Agent) -> None:
    service = Service("archon.api.agent.v1.AgentService", agent_grpc.add_AgentServiceServicer_to_server, agent)
    first = GrpcServer([service])
    await first.start()
    await first.stop(0)
    path = socket_of(first.port)
    assert path is not None
    with socket.socket(socket.AF_UNIX) as left:
        path.unlink(missing_ok=True)
        left.bind(str(path))
    second = GrpcServer([service], port=first.port)
    await second.start()
    await call(second.address)
    await second.stop(0)
    assert agent.peers[0].startswith("unix:")


@pytest.mark.parametrize("target", ["10.0.0.7:5000", "registry:5000", "dns:///registry:5000", "unix:/x.sock", "5000"])
async def test_other_targets_stay_as_they_are(target: str, folder: Path) -> None:
    assert nearest(target) == target


@pytest.mark.parametrize("name", ["x" * 100, "file/s"], ids=["too long", "not a folder"])
async def test_a_folder_that_cannot_be_used_leaves_the_port(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, agent: Agent
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("ARCHON_SOCKETS", str(tmp_path / name))
    async with serving(agent) as server:
        await call(server.address)
    assert agent.peers[0].startswith("ipv4:")


async def test_a_folder_that_others_can_write_to_is_not_used(
    agent: Agent, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    os.chmod(folder, 0o777)
    async with serving(agent) as server:
        assert os.listdir(folder) == []
        assert "other users can write to it" in caplog.text
        with socket.socket(socket.AF_UNIX) as stranger:
            stranger.bind(str(folder / f"{server.port}.sock"))
            stranger.listen()
            target = f"127.0.0.1:{server.port}"
            assert nearest(target) == target
