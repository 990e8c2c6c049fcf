"""Calls of an attached agent through its orchestrator: the same callers are let in as by an agent that is dialled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import grpc.aio
import pytest

from archon import AgentServer, status
from archon.agent import AgentSettings
from archon.api.agent.v1 import agent_service_pb2 as pb
from archon.api.agent.v1 import attach_service_pb2, message_pb2
from archon.errors import ArchonError, InstanceNotAttached, InvalidArgument, PermissionDenied, TokenInvalid
from archon.principal import Kind, Principal
from archon.registry import Tool
from archon.security.policy import POLICY
from archon.tools import SharedTool
from archon.types.message import Message
from archon_services.orchestrator.attach.replicas import CALLER_KEY
from archon_services.testing.in_process import InProcessMesh
from archon_services.testing.link import Link
from tests.fixtures.waiting import eventually, until
from tests.integration.sdk.security.test_tenants import SERVICES, WithCertificates, WithTokens

RELAYED: Final = sorted(
    method for method in POLICY if (".AgentService/" in method and "Session" not in method) or ".ToolService/" in method
)
"""The calls that an orchestrator relays."""

STREAMS: Final = ("RunTask", "ExecuteTool")
ORCHESTRATOR: Final = "orchestrator.service.default"


@dataclass
class Relayed:
    """A mesh of tenants, in which acme has an attached agent of the role `worker`."""

    mesh: InProcessMesh
    door: WithTokens | WithCertificates
    worker: AgentServer
    messages: list[Message]

    async def call(
        self,
        method: str,
        principal: Principal,
        *,
        request: bytes = b"",
        instance_id: str = "",
        more: tuple[tuple[str, Any], ...] = (),
        peer: str = ORCHESTRATOR,
    ) -> ArchonError | None:
        """Calls the worker, or another instance, through the orchestrator. Returns the error of the call."""
        channel, metadata = self.door.channel(self.mesh.orchestrator.address, peer, principal)
        given: Any = (*metadata, ("archon-instance", instance_id or self.worker.instance_id), *more)
        async with channel:
            try:
                if method.rpartition("/")[2] in STREAMS:
                    stream: Any = channel.unary_stream(method)(request, timeout=5.0, metadata=given)
                    async for _ in stream:
                        pass
                else:
                    await channel.unary_unary(method)(request, timeout=5.0, metadata=given)
            except grpc.aio.AioRpcError as raised:
                return status.from_rpc_error(raised)
        return None


async def _tool(arguments: object, call: object) -> str:
    return "done"


@pytest.fixture(params=[WithTokens, WithCertificates], ids=["tokens", "certificates"])
async def relayed(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Relayed]:
    door = request.param(tmp_path)

    def present(principal: Principal) -> None:
        for name, value in door.environment(principal).items():
            monkeypatch.setenv(name, value)

    present(SERVICES)
    mesh = InProcessMesh(tmp_path)
    async with mesh, AsyncExitStack() as stack:
        link = Link(int(mesh.orchestrator.address.rpartition(":")[2]))
        tools = [SharedTool(Tool("t"), _tool)]
        present(Principal(Kind.AGENT, "worker", "acme", frozenset({"worker"})))
        worker = AgentServer(
            "worker",
            handler=lambda task: "done",
            shared_tools=tools,
            settings=AgentSettings(attach=link.listen()),
        )
        messages: list[Message] = []

        @worker.on_direct
        async def receive(message: Message) -> None:
            messages.append(message)

        attaching = asyncio.create_task(worker.start())

        async def is_attaching() -> bool:
            return any(task.get_name() == "attach" for task in asyncio.all_tasks())

        # Once it has its credentials, the orchestrator, which is in this process, needs others.
        await eventually(is_attaching)
        present(SERVICES)
        await stack.enter_async_context(link)
        await attaching
        stack.push_async_callback(worker.stop)
        yield Relayed(mesh, door, worker, messages)


def principal(kind: Kind, tenant: str) -> Principal:
    return Principal(kind, f"some-{kind}-of-{tenant}", tenant, frozenset({"critic"}))


async def test_each_relayed_rpc_is_open_to_the_kinds_of_its_row_alone(relayed: Relayed) -> None:
    cases = [(method, kind) for method in RELAYED for kind in Kind]
    errors = await asyncio.gather(*(relayed.call(method, principal(kind, "acme")) for method, kind in cases))
    wrong = [
        (method, kind, error)
        for (method, kind), error in zip(cases, errors, strict=True)
        if (kind in POLICY[method]) == (isinstance(error, PermissionDenied) and "may not call" in str(error))
        or isinstance(error, InstanceNotAttached)
    ]
    assert wrong == []


async def test_an_attached_agent_does_not_exist_for_callers_of_another_tenant(relayed: Relayed) -> None:
    cases = [(method, kind) for method in RELAYED for kind in sorted(POLICY[method])]

    async def both(method: str, kind: Kind) -> tuple[ArchonError | None, ArchonError | None]:
        caller = principal(kind, "blue")
        return (
            await relayed.call(method, caller),
            await relayed.call(method, caller, instance_id="worker-0123456789ab"),
        )

    for (method, kind), (of_acme, of_nobody) in zip(
        cases, await asyncio.gather(*(both(*case) for case in cases)), strict=True
    ):
        assert isinstance(of_acme, InstanceNotAttached), (method, kind, of_acme)
        assert isinstance(of_nobody, InstanceNotAttached)
        told = (
            str(of_acme).replace(relayed.worker.instance_id, "ID"),
            str(of_nobody).replace("worker-0123456789ab", "ID"),
        )
        assert told[0] == told[1]
    assert relayed.messages == []
    for method in RELAYED:  # a service of the mesh serves all tenants
        error = await relayed.call(method, SERVICES)
        assert not isinstance(error, InstanceNotAttached | PermissionDenied), (method, error)


async def test_the_sender_of_a_relayed_message_is_who_its_credentials_say(relayed: Relayed) -> None:
    deliver = "/archon.api.agent.v1.AgentService/Deliver"

    def request(number: int) -> bytes:
        message = message_pb2.PeerMessage(message_id=f"m-{number}", sender_id="boss")
        return pb.DeliverRequest(request_id=f"r-{number}", messages=[message]).SerializeToString()

    critic = Principal(Kind.AGENT, "critic", "acme", frozenset({"critic"}))
    boss = attach_service_pb2.Caller(kind="agent", name="boss", tenant="acme", identity="agent:boss")
    claimed = ((CALLER_KEY, boss.SerializeToString()),)
    assert await relayed.call(deliver, critic, request=request(1)) is None
    assert await relayed.call(deliver, critic, request=request(2), more=claimed) is None
    assert await relayed.call(deliver, SERVICES, request=request(3), more=claimed) is None, (
        "another replica passes it on"
    )
    await until(lambda: len(relayed.messages) == 3)
    assert [message.sender_id for message in relayed.messages] == ["critic", "critic", "boss"]
    blue = attach_service_pb2.Caller(kind="agent", name="boss", tenant="blue", identity="agent:boss")
    error = await relayed.call(deliver, SERVICES, request=request(4), more=((CALLER_KEY, blue.SerializeToString()),))
    assert isinstance(error, InstanceNotAttached), "the caller counts, and not the replica"
    for nonsense in (b"\xff\xff", attach_service_pb2.Caller(kind="king").SerializeToString()):
        error = await relayed.call(deliver, SERVICES, request=request(5), more=((CALLER_KEY, nonsense),))
        assert isinstance(error, InvalidArgument)


async def test_a_token_for_agents_is_no_token_for_the_orchestrator(relayed: Relayed) -> None:
    if isinstance(relayed.door, WithCertificates):
        return  # a certificate has no audience
    method = "/archon.api.agent.v1.AgentService/Describe"
    error = await relayed.call(method, principal(Kind.ADMIN, "acme"), peer="worker.agent.acme")
    assert isinstance(error, TokenInvalid)
