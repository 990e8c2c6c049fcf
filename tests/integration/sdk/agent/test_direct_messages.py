"""Messages from one instance to another, outside of any run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from archon.agent import AgentServer, DirectMessages, TaskContext
from archon.agent.direct_inbox import MAX_WAITING
from archon.api.agent.v1 import agent_service_pb2 as pb
from archon.api.agent.v1 import agent_service_pb2_grpc, message_pb2
from archon.channel import agent_options, connect
from archon.errors import (
    InvalidArgument,
    MessageNotAllowed,
    RequestIdReused,
    ResourceExhausted,
    Unavailable,
    Unimplemented,
    UnknownRole,
)
from archon.principal import Kind, Principal
from archon.registry import Profile, RegistryClient
from archon.security.peer import agent as agents_of
from archon.types import HelpRequest, MessageType
from archon.types.message import Message
from archon_services.testing.in_process import InProcessMesh
from tests.fixtures.tokens import TestKeys
from tests.fixtures.waiting import eventually


async def echo(task: TaskContext) -> str:
    return task.text


class Reader:
    """An agent of the role `reader`, and the messages that it has handled."""

    def __init__(self, mesh: InProcessMesh, **options: Any) -> None:
        self.server = AgentServer("reader", handler=echo, settings=mesh.agent_settings(), **options)
        self.handled: list[Message] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.server.on_direct(self.handle)

    async def handle(self, message: Message) -> None:
        await self.gate.wait()
        self.handled.append(message)
        if message.text == "fail":
            raise ValueError("a fault of the handler")

    async def has(self, *texts: str) -> None:
        async def holds() -> bool:
            return [message.text for message in self.handled] == list(texts)

        await eventually(holds)


@pytest.fixture
async def mesh(tmp_path: Path) -> AsyncIterator[InProcessMesh]:
    async with InProcessMesh(tmp_path) as mesh:
        yield mesh


async def test_messages_are_handled_in_order_each_once(mesh: InProcessMesh) -> None:
    reader = Reader(mesh)
    async with reader.server, DirectMessages(mesh.registry.address) as direct:
        assert await direct.send("one", "reader", message_id="m-1") == reader.server.instance_id
        await direct.send("one", "reader", message_id="m-1")  # repeated, as after an answer that was lost
        await direct.send("fail", "reader")
        await direct.send({"status": "ready"}, "reader", type=MessageType.STATUS_UPDATE)
        await direct.send(HelpRequest(issue="how old?"), "reader", instance_id=reader.server.instance_id)

        async def handled() -> bool:
            return len(reader.handled) == 4

        await eventually(handled)
        kinds = [message.message_type for message in reader.handled]
        assert kinds[2:] == [MessageType.STATUS_UPDATE, MessageType.HELP_REQUEST]
        assert reader.handled[3].typed() == HelpRequest(issue="how old?")
        assert {message.sender_id for message in reader.handled} == {""}, "no caller has proved who it is"


async def test_a_sender_is_who_its_credentials_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = TestKeys(tmp_path)
    for name, value in keys.environment().items():
        monkeypatch.setenv(name, value)
    async with InProcessMesh(tmp_path) as mesh:
        reader = Reader(mesh, profile=Profile(message_types={"notification": "writer"}))
        async with reader.server:
            for name in ("writer", "critic"):
                token = keys.tokens(Principal(Kind.AGENT, name, roles=frozenset({name})))
                monkeypatch.setenv("ARCHON_TOKEN", token)
                async with DirectMessages(mesh.registry.address) as direct:
                    if name == "writer":
                        await direct.send("from the writer", "reader")
                        with pytest.raises(MessageNotAllowed, match="of the type error"):
                            await direct.send({"error": "x"}, "reader", type="error")
                    else:
                        with pytest.raises(MessageNotAllowed, match="of the type notification with critic"):
                            await direct.send("from the critic", "reader")
            await reader.has("from the writer")
            assert reader.handled[0].sender_id == "writer"
            claimed = message_pb2.PeerMessage(message_id="x", sender_id="writer", sender_task_id="t", seq=7)
            credentials = keys.credentials(Principal(Kind.AGENT, "critic"), "agents")
            async with connect(
                reader.server.address, agent_options(), peer=agents_of("reader"), credentials=credentials
            ) as channel:
                stub: Any = agent_service_pb2_grpc.AgentServiceStub(channel)
                with pytest.raises(MessageNotAllowed, match="with critic"):
                    await stub.Deliver(pb.DeliverRequest(request_id="r", messages=[claimed]))


async def test_bad_calls_are_refused_whole(mesh: InProcessMesh) -> None:
    reader = Reader(mesh)
    async with reader.server, connect(reader.server.address, agent_options()) as channel:
        stub: Any = agent_service_pb2_grpc.AgentServiceStub(channel)
        good = message_pb2.PeerMessage(message_id="m", content=[])
        large = message_pb2.PeerMessage(message_id="l")
        large.content.add(text="x" * 70_000)
        for request, field in (
            (pb.DeliverRequest(messages=[good]), "request_id"),
            (pb.DeliverRequest(request_id="x" * 300, messages=[good]), "request_id"),
            (pb.DeliverRequest(request_id="r"), "messages"),
            (pb.DeliverRequest(request_id="r", messages=[good] * 101), "messages"),
            (pb.DeliverRequest(request_id="r", messages=[good, message_pb2.PeerMessage()]), "messages[1].message_id"),
            (pb.DeliverRequest(request_id="r", messages=[good, large]), "messages[1].content"),
        ):
            with pytest.raises(InvalidArgument) as caught:
                await stub.Deliver(request)
            assert [violation.field for violation in caught.value.field_violations] == [field]
        answer = await stub.Deliver(pb.DeliverRequest(request_id="r", messages=[good]))
        assert list(answer.accepted_message_ids) == ["m"]
        with pytest.raises(RequestIdReused):
            await stub.Deliver(pb.DeliverRequest(request_id="r", messages=[large]))
        await reader.has("")


async def test_a_flood_is_refused_while_the_handler_works_and_later_ones_are_taken(mesh: InProcessMesh) -> None:
    reader = Reader(mesh)
    reader.gate.clear()
    async with reader.server, connect(reader.server.address, agent_options()) as channel:
        stub: Any = agent_service_pb2_grpc.AgentServiceStub(channel)

        def call(number: int) -> pb.DeliverRequest:
            messages = [message_pb2.PeerMessage(message_id=f"{number}-{each}") for each in range(100)]
            return pb.DeliverRequest(request_id=f"r-{number}", messages=messages)

        with pytest.raises(ResourceExhausted) as caught:
            for number in range(MAX_WAITING // 100 + 2):
                await stub.Deliver(call(number))
        assert caught.value.retry_delay == 1.0
        reader.gate.set()

        async def taken() -> bool:
            return len(reader.handled) >= MAX_WAITING

        await eventually(taken)
        await stub.Deliver(call(99))


async def test_messages_that_expire_before_they_are_handled_are_dropped(mesh: InProcessMesh) -> None:
    reader = Reader(mesh)
    reader.gate.clear()
    async with reader.server, DirectMessages(mesh.registry.address) as direct:
        await direct.send("first", "reader")
        await direct.send("late", "reader", ttl=0.001)
        await direct.send("last", "reader")
        await asyncio.to_thread(lambda: None)
        reader.gate.set()
        await reader.has("first", "last")


async def test_an_instance_that_is_gone_is_passed_over_and_one_that_takes_none_says_so(mesh: InProcessMesh) -> None:
    reader = Reader(mesh)
    silent = AgentServer("silent", handler=echo, settings=mesh.agent_settings())
    async with (
        reader.server,
        silent,
        DirectMessages(mesh.registry.address) as direct,
        RegistryClient(mesh.registry.address) as registry,
    ):
        gone = await registry.register(
            reader.server.registration.__class__(role="reader", instance_id="gone", address="127.0.0.1:1")
        )
        for number in range(4):
            assert await direct.send(str(number), "reader") == reader.server.instance_id
        with pytest.raises(Unavailable):
            await direct.send("x", "reader", instance_id=gone.instance_id)
        with pytest.raises(Unimplemented, match="silent takes no messages from other instances"):
            await direct.send("x", "silent")
        for role, instance_id in (("nowhere", ""), ("reader", "no-such-one")):
            with pytest.raises(UnknownRole):
                await direct.send("x", role, instance_id=instance_id)
        with pytest.raises(InvalidArgument):
            await direct.send("x", "reader", type="gossip")
