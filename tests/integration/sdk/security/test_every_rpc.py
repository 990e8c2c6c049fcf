"""Every RPC of a mesh whose calls need tokens, called by every kind of caller, over real servers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any, Final

import grpc
import grpc.aio
import pytest

from archon import status
from archon.agent import AgentServer, AgentSettings
from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.api.orchestrator.v1 import orchestrator_service_pb2_grpc
from archon.client import Client
from archon.errors import (
    ArchonError,
    DeliveryUnverified,
    PermissionDenied,
    TokenExpired,
    TokenInvalid,
    TokenMissing,
    TokenRevoked,
    Unauthenticated,
)
from archon.principal import Kind, Principal
from archon.registry import Registration, RegistryClient
from archon.security.credentials import NoCredentials
from archon.security.policy import POLICY
from archon_services.testing.in_process import InProcessMesh
from tests.fixtures.tokens import TestKeys

STREAMS_IN: Final = ("KeepAlive", "Session", "Converse", "Attach")
STREAMS_OUT: Final = (*STREAMS_IN, "WatchRun", "Watch", "WatchItems", "WatchValues", "RunTask", "ExecuteTool")
PATIENCE: Final = 0.5
"""Seconds of a stream: one that is let in says nothing."""

ANSWERED: Final = 20.0
"""Seconds within which a call without a stream is answered, beside all others on a busy machine."""


class Guarded:
    """A mesh whose calls need tokens, with an agent of the role `worker`."""

    def __init__(self, folder: Path, keys: TestKeys) -> None:
        self.keys = keys
        self.mesh = InProcessMesh(folder)
        self.agent: AgentServer

    def address(self, method: str) -> str:
        service = method.split("/")[1]
        if service.endswith(".AttachService"):
            return self.mesh.orchestrator.address
        if ".agent." in service or ".tool." in service:
            return self.agent.address
        if ".registry." in service:
            return self.mesh.registry.address
        return self.mesh.memory.address if ".memory." in service else self.mesh.orchestrator.address

    def token(self, method: str, principal: Principal, *, seconds: float = 600.0) -> str:
        audience: Any = "agents" if self.address(method) == self.agent.address else "services"
        return self.keys.token(principal, audience, seconds=seconds)

    async def outcome(self, method: str, token: str) -> ArchonError | None:
        """Calls a method with an empty request. Returns why it was refused; None if it was let in."""
        name = method.rpartition("/")[2]
        metadata = (("authorization", f"Bearer {token}"),) if token else ()
        async with grpc.aio.insecure_channel(self.address(method)) as channel:
            try:
                call: Any
                if name in STREAMS_OUT:
                    make: Any = channel.stream_stream if name in STREAMS_IN else channel.unary_stream
                    call = make(method)(iter(()) if name in STREAMS_IN else b"", timeout=PATIENCE, metadata=metadata)
                    async for _ in call:
                        break
                else:
                    call = channel.unary_unary(method)
                    await call(b"", timeout=ANSWERED, metadata=metadata)
            except grpc.aio.AioRpcError as raised:
                error = status.from_rpc_error(raised)
                if isinstance(error, DeliveryUnverified):
                    return None  # the caller was let in, and the signature of its delivery was looked at
                if isinstance(error, Unauthenticated) or "may not call" in str(error):
                    return error
        return None


@pytest.fixture
async def guarded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Guarded]:
    keys = TestKeys(tmp_path)
    for name, value in keys.environment().items():
        monkeypatch.setenv(name, value)
    guarded = Guarded(tmp_path, keys)
    async with guarded.mesh:
        settings = guarded.mesh.agent_settings()
        async with AgentServer("worker", handler=lambda task: "done", settings=settings) as guarded.agent:
            yield guarded


CALLERS: Final = {kind: Principal(kind, f"some-{kind}", roles=frozenset({"worker"})) for kind in Kind}


async def test_every_rpc_is_open_to_the_kinds_of_its_row_alone(guarded: Guarded) -> None:
    cases = [(method, kind) for method in POLICY for kind in Kind]
    limit = asyncio.Semaphore(64)

    async def case(method: str, kind: Kind) -> ArchonError | None:
        async with limit:
            return await guarded.outcome(method, guarded.token(method, CALLERS[kind]))

    outcomes = await asyncio.gather(*(case(method, kind) for method, kind in cases))
    wrong = []
    for (method, kind), error in zip(cases, outcomes, strict=True):
        if (error is None) != (kind in POLICY[method]) or (error is not None and type(error) is not PermissionDenied):
            wrong.append((method, kind, error))
    assert wrong == []


@pytest.mark.parametrize("fault", ["none", "expired", "of another mesh", "for the other audience", "damaged"])
async def test_no_rpc_is_open_without_a_valid_token(guarded: Guarded, fault: str, tmp_path: Path) -> None:
    other = TestKeys(tmp_path, "another-mesh")
    admin = Principal(Kind.ADMIN, "eve")
    expected = {"none": TokenMissing, "expired": TokenExpired}.get(fault, TokenInvalid)

    def token(method: str) -> str:
        audience: Any = "agents" if guarded.address(method) == guarded.agent.address else "services"
        if fault == "none":
            return ""
        if fault == "expired":
            return guarded.token(method, admin, seconds=-1)
        if fault == "of another mesh":
            return other.token(admin, audience)
        if fault == "for the other audience":
            return guarded.keys.token(admin, "services" if audience == "agents" else "agents")
        return guarded.token(method, admin)[:-4] + "AAAA"

    methods = list(POLICY)
    outcomes = await asyncio.gather(*(guarded.outcome(method, token(method)) for method in methods))
    assert [
        (method, error) for method, error in zip(methods, outcomes, strict=True) if type(error) is not expected
    ] == []


async def test_a_run_passes_all_members_with_their_own_tokens(guarded: Guarded) -> None:
    handle = await guarded.mesh.client.submit("x", roles=["worker"])
    run = await handle.result(10)
    assert [answer.text for answer in run.answers] == ["done"]


async def test_an_agent_registers_the_roles_of_its_credentials_alone(guarded: Guarded) -> None:
    credentials = guarded.keys.credentials(Principal(Kind.AGENT, "writer", roles=frozenset({"writer"})))
    async with RegistryClient(guarded.mesh.registry.address, credentials=credentials) as client:
        registration = Registration(role="writer", instance_id="writer-1", address="127.0.0.1:7999")
        await client.register(registration)
        with pytest.raises(PermissionDenied, match="may not register the role 'reviewer'"):
            await client.register(Registration(role="reviewer", instance_id="reviewer-1", address="127.0.0.1:7999"))
        assert [each.identity for each in await client.list_instances("writer")] == ["agent:writer"]


async def test_an_agent_learns_the_keys_of_its_mesh_from_the_registry(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ARCHON_KEYS")  # as of an agent elsewhere, which has a token alone
    monkeypatch.setenv("ARCHON_TOKEN", guarded.keys.tokens(Principal(Kind.AGENT, "far", roles=frozenset({"far"}))))
    settings = AgentSettings(registry=guarded.mesh.registry.address)
    async with AgentServer("far", handler=lambda task: "from afar", settings=settings) as far:
        method = "/archon.api.agent.v1.AgentService/Session"
        stranger = Guarded(guarded.mesh.home, guarded.keys)
        stranger.mesh, stranger.agent = guarded.mesh, far
        assert type(await stranger.outcome(method, "")) is TokenMissing
        admin = stranger.token(method, Principal(Kind.ADMIN, "eve"))
        assert type(await stranger.outcome(method, admin)) is PermissionDenied


async def test_open_streams_end_when_their_token_is_revoked_or_expires(guarded: Guarded) -> None:
    address = guarded.mesh.orchestrator.address
    run = await guarded.mesh.client.submit("x", roles=["worker"])
    await run.result(10)

    async def converse(token: str) -> ArchonError:
        async with grpc.aio.insecure_channel(address) as channel:
            stub: Any = orchestrator_service_pb2_grpc.OrchestratorServiceStub(channel)
            call = stub.Converse(metadata=(("authorization", f"Bearer {token}"),))
            await call.write(pb.ConverseRequest(correlation_id="1", watch=pb.WatchRunRequest(run_id=run.run_id)))
            await call.read()
            opened.set()
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                while await call.read() is not grpc.aio.EOF:
                    pass
            return status.from_rpc_error(caught.value)

    opened = asyncio.Event()
    principal = Principal(Kind.OPERATOR, "alice", token_id="t-1")
    revoked = asyncio.create_task(converse(guarded.keys.token(principal)))
    await asyncio.wait_for(opened.wait(), 10)
    guarded.keys.write("t-1")
    assert type(await asyncio.wait_for(revoked, 10)) is TokenRevoked
    opened.clear()
    short = Principal(Kind.OPERATOR, "bob", token_id="t-2")
    assert type(await asyncio.wait_for(converse(guarded.keys.token(short, seconds=2)), 10)) is TokenExpired


async def test_a_client_without_a_token_is_refused_with_the_remedy(guarded: Guarded) -> None:
    async with Client(guarded.mesh.orchestrator.address, credentials=NoCredentials()) as client:
        with pytest.raises(TokenMissing, match="`archon token`, in the folder of the mesh, prints one"):
            await client.submit("x")
        with pytest.raises(TokenMissing):
            async with aclosing(client.watch("any")) as events:
                async for _ in events:
                    pass
