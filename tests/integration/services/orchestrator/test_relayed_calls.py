"""Calls of attached agents, which their orchestrator relays: shared tools, messages, tasks and descriptions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any

import grpc.aio
import pytest

from archon.agent import AgentServer, AgentSettings, DirectMessages, TaskContext
from archon.api.agent.v1 import agent_service_pb2, agent_service_pb2_grpc, attach_service_pb2, session_pb2
from archon.api.registry.v1 import registry_pb2
from archon.channel import connect
from archon.client import answer_text
from archon.errors import (
    ArchonError,
    CallsNotRelayed,
    DeadlineExceeded,
    InstanceNotAttached,
    MalformedMessage,
    MessageTooLarge,
    ResourceExhausted,
    Unavailable,
    Unimplemented,
)
from archon.interceptors import translated
from archon.registry import Registration, Tool
from archon.registry.instance_channel import connect_to_instance
from archon.tools import SharedTool, SharedToolCall, SharedToolStatus, ToolClient, find_tools
from archon.types import Message
from archon_services.orchestrator.attach import AttachRelay, call_load, calls
from archon_services.orchestrator.attach.instance import AttachedInstance
from archon_services.orchestrator.attach.replicas import CALLER_KEY
from archon_services.orchestrator.attach.stream import AttachStream
from archon_services.testing.link import Link
from tests.fixtures.mesh import Mesh
from tests.fixtures.replicas import Replicas
from tests.fixtures.waiting import eventually, until
from tests.integration.services.orchestrator.attached import Raw, instances, raw


class Lab:
    """An attached agent of the role `lab` that shares the tools `add` and `wait`."""

    def __init__(self, orchestrator: str, **options: Any) -> None:
        self.began = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.go_on = asyncio.Event()
        self.calls = 0
        self.messages: list[Message] = []
        self.server = AgentServer(
            "lab",
            handler=self.answer,
            settings=AgentSettings(attach=orchestrator, ttl=2.0),
            shared_tools=[SharedTool(Tool("add"), self.add), SharedTool(Tool("wait"), self.wait)],
            **options,
        )
        self.server.on_direct(self.receive)

    async def answer(self, task: TaskContext) -> str:
        return f"lab: {task.text}"

    async def add(self, arguments: Mapping[str, Any], call: SharedToolCall) -> str:
        call.report("adding")
        return str(sum(arguments["numbers"]))

    async def wait(self, arguments: Mapping[str, Any], call: SharedToolCall) -> str:
        self.calls += 1
        self.began.set()
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return "waited"

    async def receive(self, message: Message) -> None:
        self.messages.append(message)


@asynccontextmanager
async def lab(orchestrator: str, **options: Any) -> AsyncIterator[Lab]:
    agent = Lab(orchestrator, **options)
    async with agent.server:
        yield agent


def instance_of(mesh: Mesh, instance_id: str) -> Registration:
    """Returns an instance that is attached to the orchestrator of a mesh, as far as a connection needs it."""
    return Registration("odd", instance_id=instance_id, via_orchestrator=mesh.orchestrator.address)


@asynccontextmanager
async def taking_calls(mesh: Mesh, instance_id: str) -> AsyncIterator[Raw]:
    """Attaches a member that takes calls. Yields its spare stream, beside that of its session."""
    registration = registry_pb2.Registration(instance_id=instance_id, role="odd", version="1.0.0", max_tasks=1)
    ready = session_pb2.Ready(instance_id=instance_id, features=["calls"], registration=registration)
    async with raw(mesh.orchestrator.address) as session, raw(mesh.orchestrator.address) as spare:
        await session.send(session_pb2.AgentFrame(ready=ready))
        assert (await session.frame()).HasField("open")
        await spare.send(session_pb2.AgentFrame(ready=ready))
        await spare.registered()
        yield spare


async def describe(instance: Registration, timeout: float = 5.0) -> agent_service_pb2.DescribeResponse:
    async with connect_to_instance(instance) as channel:
        service: Any = agent_service_pb2_grpc.AgentServiceStub(channel)
        response: agent_service_pb2.DescribeResponse = await service.Describe(
            agent_service_pb2.DescribeRequest(), timeout=timeout
        )
        return response


async def test_another_member_executes_the_tool_of_an_attached_agent(mesh: Mesh) -> None:
    async with lab(mesh.orchestrator.address) as agent, ToolClient(mesh.registry.address) as tools:
        progress: list[str] = []
        async with tools.lease("add") as tool:
            result = await tool.execute({"numbers": [1, 2, 39]}, on_progress=progress.append)
            assert (result.status, result.content, progress) == (SharedToolStatus.SUCCESS, "42", ["adding"])
            assert len(agent.server.shared_tools.leases()) == 1
        assert agent.server.shared_tools.leases() == [], "the end of the block has ended the lease"


async def test_a_tool_that_an_attached_agent_shares_later_is_found(mesh: Mesh) -> None:
    async with lab(mesh.orchestrator.address) as agent, ToolClient(mesh.registry.address) as tools:
        agent.server.shared_tools.share(SharedTool(Tool("late"), agent.add))

        async def is_found() -> bool:
            return bool(await find_tools(mesh.registry.address, name="late"))

        await eventually(is_found)
        async with tools.lease("late") as tool:
            assert (await tool.execute({"numbers": [1]})).content == "1"


async def test_a_message_a_task_and_a_description_reach_an_attached_agent(mesh: Mesh) -> None:
    async with lab(mesh.orchestrator.address) as agent, DirectMessages(mesh.registry.address) as direct:
        assert await direct.send("hello", "lab") == agent.server.instance_id
        await until(lambda: [message.text for message in agent.messages] == ["hello"])
        [instance] = await instances(mesh, "lab")
        described = await describe(instance)
        assert described.registration.instance_id == instance.instance_id
        async with connect_to_instance(instance) as channel:
            service: Any = agent_service_pb2_grpc.AgentServiceStub(channel)
            request = agent_service_pb2.RunTaskRequest()
            request.task.input.add(text="x")
            async with aclosing(translated(service.RunTask(request, timeout=5))) as events:  # type: ignore[type-var]
                results = [event.result async for event in events if event.HasField("result")]
        assert [result.output[0].text for result in results] == ["lab: x"]


async def test_a_planner_that_is_attached_makes_a_plan_without_a_run(mesh: Mesh) -> None:
    plan = '{"goal": "g", "subtasks": [{"id": "a", "description": "cook", "role": "cook"}]}'

    async def make(task: TaskContext) -> str:
        return plan

    await mesh.agent("cook")
    settings = AgentSettings(attach=mesh.orchestrator.address)
    async with AgentServer("far-planner", planner=True, handler=make, settings=settings):
        made = await mesh.client.plan("cook", planner="far-planner", roles=["cook"])
        assert [step.description for step in made.steps] == ["cook"]


async def test_a_call_reaches_an_agent_that_is_attached_to_another_replica(replicas: Replicas) -> None:
    async with lab(replicas.second.address) as agent:
        [instance] = await instances(replicas, "lab")
        elsewhere = Registration(
            "lab", instance_id=instance.instance_id, via_orchestrator=replicas.orchestrator.address
        )

        async def is_reached() -> bool:  # the replica learns of the agent by its watch of the registry
            try:
                return (await describe(elsewhere)).registration.instance_id == agent.server.instance_id
            except InstanceNotAttached:
                return False

        await eventually(is_reached)
        assert (await describe(elsewhere)).registration.role == "lab"


async def test_a_call_that_was_passed_on_is_not_passed_on_again(replicas: Replicas) -> None:
    async with lab(replicas.second.address) as agent:
        elsewhere = Registration(
            "lab", instance_id=agent.server.instance_id, via_orchestrator=replicas.orchestrator.address
        )

        async def is_passed_on() -> bool:
            try:
                return bool(await describe(elsewhere))
            except InstanceNotAttached:
                return False

        await eventually(is_passed_on)
        async with connect_to_instance(elsewhere) as channel:
            service: Any = agent_service_pb2_grpc.AgentServiceStub(channel)
            with pytest.raises(InstanceNotAttached, match="is not attached here"):
                await service.Describe(agent_service_pb2.DescribeRequest(), timeout=5, metadata=((CALLER_KEY, b""),))


async def test_the_end_of_the_callers_time_ends_the_call_at_the_agent(mesh: Mesh) -> None:
    async with (
        lab(mesh.orchestrator.address) as agent,
        ToolClient(mesh.registry.address) as tools,
        tools.lease("wait") as tool,
    ):
        result = await tool.execute({}, timeout=0.3)
        assert result.status is SharedToolStatus.TIMEOUT
        await asyncio.wait_for(agent.cancelled.wait(), 5.0)


async def test_an_agent_that_does_not_answer_costs_the_caller_its_own_time(mesh: Mesh) -> None:
    async with taking_calls(mesh, "silent-1") as spare:
        described = asyncio.create_task(describe(instance_of(mesh, "silent-1"), timeout=0.3))
        assert (await spare.message()).call.method.endswith("/Describe")
        with pytest.raises(DeadlineExceeded):
            await described
        with pytest.raises(EOFError, match="OK"):  # the stream ends, by which the agent learns that the caller has left
            await spare.message()


async def test_a_caller_that_leaves_cancels_the_call_at_the_agent(mesh: Mesh) -> None:
    async with (
        lab(mesh.orchestrator.address) as agent,
        ToolClient(mesh.registry.address) as tools,
        tools.lease("wait") as tool,
    ):
        call = asyncio.create_task(tool.execute({}))
        await asyncio.wait_for(agent.began.wait(), 5.0)
        call.cancel()
        await asyncio.wait_for(agent.cancelled.wait(), 5.0)
        assert agent.calls == 1


async def test_a_connection_that_breaks_in_a_call_ends_it_with_a_typed_error_and_no_second_try(mesh: Mesh) -> None:
    async with (
        Link(int(mesh.orchestrator.address.rpartition(":")[2])) as link,
        lab(link.address) as agent,
        ToolClient(mesh.registry.address) as tools,
        tools.lease("wait") as tool,
    ):
        call = asyncio.create_task(tool.execute({}))
        await asyncio.wait_for(agent.began.wait(), 5.0)
        link.cut()
        with pytest.raises(InstanceNotAttached, match="it may have acted") as caught:
            await call
        assert "begun" not in caught.value.metadata
        await asyncio.wait_for(agent.cancelled.wait(), 5.0)
        assert agent.calls == 1, "the tool may have acted, and is not idempotent"
        agent.go_on.set()

        async def works_again() -> bool:
            try:
                return bool((await tool.execute({})).content == "waited")
            except (Unavailable, ResourceExhausted):
                return False

        await eventually(works_again, 10.0)


async def test_an_orchestrator_that_dies_in_a_call_cancels_it_and_the_agent_serves_again(own_mesh: Mesh) -> None:
    async with (
        lab(own_mesh.orchestrator.address) as agent,
        ToolClient(own_mesh.registry.address) as tools,
        tools.lease("wait") as tool,
    ):
        call = asyncio.create_task(tool.execute({}))
        await asyncio.wait_for(agent.began.wait(), 5.0)
        await own_mesh.orchestrator.kill()
        with pytest.raises(Unavailable):
            await call
        await asyncio.wait_for(agent.cancelled.wait(), 5.0)
        await own_mesh.orchestrator.start()
        agent.go_on.set()

        async def works_again() -> bool:
            try:
                return bool((await tool.execute({})).content == "waited")
            except (Unavailable, ResourceExhausted):
                return False

        await eventually(works_again, 10.0)


async def test_calls_above_the_limit_are_refused_and_sessions_go_on(
    mesh: Mesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_load, "MAX_CALLS", 3)
    async with lab(mesh.orchestrator.address) as agent:
        [instance] = await instances(mesh, "lab")
        async with ToolClient(mesh.registry.address) as tools, tools.lease("wait") as tool:
            flood = [asyncio.create_task(tool.execute({})) for _ in range(12)]
            await until(lambda: agent.calls == 3 and sum(call.done() for call in flood) == 9)
            refused = [call.exception() for call in flood if call.done()]
            assert all(isinstance(error, ResourceExhausted) for error in refused), refused
            assert {error.retry_delay for error in refused if isinstance(error, ArchonError)} == {1.0}
            with pytest.raises(ResourceExhausted):
                await describe(instance)
            handle = await mesh.client.submit("x", roles=["lab"], wait=10)
            assert answer_text(handle.run) == "lab: x"
            agent.go_on.set()
            ended = await asyncio.gather(*flood, return_exceptions=True)
            assert [each.content for each in ended if not isinstance(each, BaseException)] == ["waited"] * 3


async def test_the_bytes_of_requests_that_are_relayed_are_bounded(mesh: Mesh, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_load, "MAX_BYTES", 1_000)
    async with lab(mesh.orchestrator.address) as agent:
        [instance] = await instances(mesh, "lab")
        async with ToolClient(mesh.registry.address) as tools, tools.lease("wait") as tool:
            large = asyncio.create_task(tool.execute({"text": "x" * 2_000}))
            await asyncio.wait_for(agent.began.wait(), 5.0)  # the only one may be larger
            with pytest.raises(ResourceExhausted, match="bytes are being relayed"):
                await describe(instance)
            agent.go_on.set()
            assert (await large).content == "waited"
        monkeypatch.setattr(calls, "MAX_RELAYED_BYTES", 100)
        async with DirectMessages(mesh.registry.address) as direct:
            with pytest.raises(MessageTooLarge):
                await direct.send("x" * 101, "lab")


async def test_an_attached_agent_of_an_earlier_release_is_not_called(mesh: Mesh) -> None:
    async with raw(mesh.orchestrator.address) as member:
        await member.register("old-1", "old")
        assert (await member.frame()).HasField("open")
        with pytest.raises(CallsNotRelayed, match="install the current SDK"):
            await describe(instance_of(mesh, "old-1"))


async def test_a_call_that_names_no_attached_agent_says_what_to_do(mesh: Mesh) -> None:
    orchestrator = mesh.orchestrator.address
    with pytest.raises(InstanceNotAttached, match="`archon agents` shows where") as caught:
        await describe(instance_of(mesh, "absent-1"))
    assert caught.value.metadata == {"instance_id": "absent-1", "begun": "false"}
    async with connect(orchestrator) as channel:
        service: Any = agent_service_pb2_grpc.AgentServiceStub(channel)
        with pytest.raises(Unimplemented, match="this is an orchestrator and no agent: call the agent at the address"):
            await service.Describe(agent_service_pb2.DescribeRequest(), timeout=5)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (attach_service_pb2.AttachRequest(), MalformedMessage),
        (attach_service_pb2.AttachRequest(frames=[session_pb2.AgentFrame()]), MalformedMessage),
        (
            attach_service_pb2.AttachRequest(
                answer=attach_service_pb2.CallAnswer(completed=attach_service_pb2.CallCompleted())
            ),
            ArchonError,
        ),
    ],
)
async def test_an_agent_that_answers_a_call_wrongly_fails_this_call_alone(
    mesh: Mesh, answer: attach_service_pb2.AttachRequest, expected: type[ArchonError]
) -> None:
    name = f"odd-{len(answer.SerializeToString())}"
    async with taking_calls(mesh, name) as spare:
        described = asyncio.create_task(describe(instance_of(mesh, name)))
        assert (await spare.message()).call.method.endswith("/Describe")
        await spare.send_raw(answer.SerializeToString() or b"\n\x00")
        with pytest.raises(expected):
            await described
        assert name in [each.instance_id for each in await instances(mesh, "odd")], "the session goes on"


async def test_an_agent_that_stops_in_a_call_ends_it_and_leaves_the_registry_at_once(mesh: Mesh) -> None:
    agent = Lab(mesh.orchestrator.address)
    await agent.server.start()
    async with ToolClient(mesh.registry.address) as tools, tools.lease("wait") as tool:
        call = asyncio.create_task(tool.execute({}))
        await asyncio.wait_for(agent.began.wait(), 5.0)
        await agent.server.stop(0.0)
        with pytest.raises(ArchonError):
            await call

        async def gone() -> bool:
            return agent.server.instance_id not in [each.instance_id for each in await instances(mesh, "lab")]

        await eventually(gone, within=1.5)  # its lease ends after 2 s


@pytest.mark.parametrize("last", ["the session", "the call"])
async def test_an_agent_leaves_in_any_order_of_the_ends_of_its_streams(mesh: Mesh, last: str) -> None:
    relay = AttachRelay(mesh.registry.address)
    relay.address = "127.0.0.1:1"
    role = f"leaver-{last.split()[1]}"
    instance = await relay.admit(Registration(role, via_orchestrator=mesh.orchestrator.address), "0" * 16)
    session, call = (AttachStream(_silent(), takes_calls=True) for _ in range(2))
    call.carried_call = True
    streams = [session, call] if last == "the call" else [call, session]
    for stream in streams:
        instance.add(stream)
    assert relay.ended(instance, streams[0], broken=False) is None, "the other one may go on"
    leaving = relay.ended(instance, streams[1], broken=False)
    assert leaving is not None
    await leaving
    assert await instances(mesh, role) == []
    for stream in streams:
        stream.close()
    await relay.close()


async def test_the_end_of_a_call_is_no_end_of_its_agent(mesh: Mesh) -> None:
    relay = AttachRelay(mesh.registry.address)
    relay.address = "127.0.0.1:1"
    instance = await relay.admit(Registration("stayer", via_orchestrator=mesh.orchestrator.address), "0" * 16)
    call = AttachStream(_silent(), takes_calls=True)
    call.carried_call = True
    instance.add(call)
    assert relay.ended(instance, call, broken=False) is None, "the agent opens another stream"
    assert [each.role for each in await instances(mesh, "stayer")] == ["stayer"]
    call.close()
    await relay.close()


async def _silent() -> AsyncIterator[bytes]:
    await asyncio.Event().wait()
    yield b""


async def test_a_request_that_is_no_message_gets_a_typed_error(mesh: Mesh) -> None:
    async with lab(mesh.orchestrator.address) as agent, grpc.aio.insecure_channel(mesh.orchestrator.address) as channel:
        method: Any = channel.unary_unary("/archon.api.agent.v1.AgentService/Deliver")
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await method(b"\xff\xff", metadata=(("archon-instance", agent.server.instance_id),), timeout=5)
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert "message of the contract" in (caught.value.details() or "")


async def test_a_call_between_the_admission_and_the_first_stream_of_an_agent_waits_for_it() -> None:
    waiting = AttachedInstance("127.0.0.1:1", "", lambda instance: None)
    call = asyncio.create_task(waiting.spare_for_call(5.0))
    await asyncio.sleep(0)
    stream = AttachStream(_silence(), takes_calls=True)
    waiting.add(stream)
    assert await call is stream
    stream.close()
    await waiting.abandon()


async def _silence() -> AsyncIterator[bytes]:
    await asyncio.Event().wait()
    yield b""
