"""An address of another member of the mesh, or credentials of another kind: the error says what to correct."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from archon.agent import AgentServer, AgentSettings
from archon.api.agent.v1 import agent_service_pb2, agent_service_pb2_grpc
from archon.channel import connect
from archon.client import Client
from archon.errors import PermissionDenied, TokenMissing, Unimplemented
from archon.memory import WorkingMemoryClient
from archon.principal import Kind, Principal
from archon.registry import RegistryClient
from archon.security.credentials import TokenFile
from archon_services.testing.in_process import InProcessMesh
from tests.fixtures.mesh import Mesh
from tests.fixtures.tokens import TestKeys


async def test_a_call_of_another_member_names_it_and_the_address_to_correct(mesh: Mesh) -> None:
    agent = await mesh.agent("lost")
    registry, orchestrator = mesh.registry.address, mesh.orchestrator.address
    members = {agent.address: "an agent", registry: "a registry", mesh.memory.address: "a memory service"}
    for address, own in members.items():
        async with Client(address) as client:
            with pytest.raises(Unimplemented, match=f"this is {own}, .* for an orchestrator: correct ARCHON_ORCHESTR"):
                await client.get("r")
        settings = AgentSettings(attach=address)
        with pytest.raises(Unimplemented, match=f"this is {own}, .* for an orchestrator: correct ARCHON_ATTACH"):
            await AgentServer("lost", handler=lambda task: "x", settings=settings).start()
    async with RegistryClient(orchestrator) as client:
        with pytest.raises(Unimplemented, match=r"this is an orchestrator, .* for a registry: correct ARCHON_REGISTRY"):
            await client.get_graph()
    async with WorkingMemoryClient(registry, "scope") as memory:
        with pytest.raises(Unimplemented, match=r"this is a registry, .* for a memory service: correct ARCHON_MEMORY"):
            await memory.get("key")
    async with connect(registry) as channel:
        stub: Any = agent_service_pb2_grpc.AgentServiceStub(channel)
        with pytest.raises(Unimplemented, match=r"this is a registry, .* for an agent: .*`archon agents` lists"):
            await stub.Describe(agent_service_pb2.DescribeRequest(), timeout=5)
        unknown: Any = channel.unary_unary("/archon.api.registry.v1.RegistryService/Later")
        with pytest.raises(Unimplemented, match="this release of a registry has no Later: install the same release"):
            await unknown(b"", timeout=5)


async def test_an_agent_that_may_not_attach_says_which_token_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = TestKeys(tmp_path)
    for name, value in keys.environment().items():
        monkeypatch.setenv(name, value)
    async with InProcessMesh(tmp_path) as mesh:
        own = keys.tokens(Principal(Kind.SERVICE, "of-tests"))
        refused: dict[str, type[Exception]] = {"": TokenMissing}
        for kind in (Kind.OPERATOR, Kind.AGENT):
            refused[keys.tokens(Principal(kind, "x", roles=frozenset({"other"})))] = PermissionDenied
        for token, error in refused.items():
            monkeypatch.setenv("ARCHON_TOKEN", token)
            settings = AgentSettings(attach=mesh.orchestrator.address)
            agent = AgentServer("far", handler=lambda task: "x", settings=settings)
            with pytest.raises(error, match=r"of its role: ARCHON_TOKEN=\$\(archon token --role far\)"):
                await agent.start()
        monkeypatch.setenv("ARCHON_TOKEN", own)


def test_a_token_file_that_cannot_be_read_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "no-token"
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert TokenFile(path, "ARCHON_TOKEN_FILE").read() == {}
        assert TokenFile(tmp_path / "of-a-mesh-without-tokens").read() == {}
    [record] = caplog.records
    assert record.getMessage() == (
        f"ARCHON_TOKEN_FILE is {path}, which cannot be read (No such file or directory): calls carry no token"
    )
