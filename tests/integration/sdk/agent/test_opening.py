"""The opening of a session, frames that are refused on it, and the other RPCs of an agent."""

from __future__ import annotations

from typing import Any

import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from archon import errors, status
from archon.agent import AgentServer, TaskContext
from archon.api.agent.v1 import agent_service_pb2, session_pb2
from archon.testing.frame_orchestrator import FrameOrchestrator
from archon.types import Usage
from tests.fixtures.agents import Dial, Gate, Serve

BEAT = session_pb2.OrchestratorFrame(heartbeat=session_pb2.Heartbeat(counter=7))


async def upper(task: TaskContext) -> str:
    return task.text.upper()


@pytest.fixture
async def agent(serve: Serve) -> AgentServer:
    return await serve(upper)


def error_of(frame: session_pb2.AgentFrame) -> errors.ArchonError:
    return status.from_failure(frame.failure)


async def still_lives(peer: FrameOrchestrator, task_id: str = "next") -> None:
    """Asserts that the stream still serves a task."""
    ref = peer.ref(task_id)
    await peer.assign(ref, "still here")
    assert (await peer.result(ref)).output[0].text == "STILL HERE"


async def test_open_is_answered_by_ready_with_id_protocol_and_credit(agent: AgentServer) -> None:
    async with FrameOrchestrator(agent.address) as peer:
        ready = await peer.open()
        assert (ready.instance_id, ready.protocol, ready.max_tasks) == (agent.instance_id, 1, 8)
        assert ready.max_message_bytes == 4 * 1024 * 1024


async def test_contract_rule_11_ready_returns_the_common_features(agent: AgentServer) -> None:
    async with FrameOrchestrator(agent.address) as peer:
        opening = peer.opening(agent.instance_id, protocol=2)
        opening.open.features[:] = ["adopt", "telepathy"]
        await peer.send(opening)
        ready = (await peer.receive("ready")).ready
        assert (list(ready.features), ready.protocol) == (["adopt"], 1)


async def test_contract_rule_11_without_features_only_a_result_goes(serve: Serve) -> None:
    async def busy(task: TaskContext) -> str:
        task.write("a delta")
        task.record_model_call("m", {}, {}, started=0.0, seconds=0.0, usage=Usage())
        return "done"

    agent = await serve(busy)
    async with (
        FrameOrchestrator(agent.address) as peer,
        FrameOrchestrator(agent.address, orchestrator_id="2") as second,
    ):
        opening = peer.opening(agent.instance_id)
        opening.open.ClearField("features")
        await peer.send(opening)
        await peer.receive("ready")
        await second.open(agent.instance_id)  # this halves the credit
        ref = peer.ref("one")
        await peer.assign(ref)
        assert (await peer.receive("result")).sequence == 1
        assert [frame.WhichOneof("frame") for frame in peer.frames] == ["ready", "result"]


async def test_a_frame_before_open_is_refused_and_the_stream_lives(agent: AgentServer) -> None:
    async with FrameOrchestrator(agent.address) as peer:
        await peer.send(BEAT)
        assert isinstance(error_of(await peer.receive("failure")), errors.SessionNotOpen)
        await peer.open(agent.instance_id)
        await still_lives(peer)


async def test_contract_rule_4_a_second_open_fails_the_stream_lives(agent: AgentServer, dial: Dial) -> None:
    peer = await dial(agent)
    await peer.send(peer.opening(agent.instance_id))
    assert isinstance(error_of(await peer.receive("failure")), errors.SessionAlreadyOpen)
    await still_lives(peer)


async def test_contract_rule_4_an_open_for_another_instance_ends_it(agent: AgentServer) -> None:
    async with FrameOrchestrator(agent.address) as peer:
        await peer.send(peer.opening("worker-of-yesterday"))
        error = await peer.ended()
        assert isinstance(error, errors.WrongInstance)
        assert error.metadata["instance_id"] == agent.instance_id


async def test_a_protocol_that_is_too_old_ends_the_stream(agent: AgentServer) -> None:
    async with FrameOrchestrator(agent.address) as peer:
        await peer.send(peer.opening(agent.instance_id, protocol=0))
        error = await peer.ended()
        assert isinstance(error, errors.FailedPrecondition)
        assert error.reason == "PROTOCOL_MISMATCH"


@pytest.mark.parametrize(
    ("field", "change"), [("orchestrator_id", {"orchestrator_id": ""}), ("max_message_bytes", {"max_message_bytes": 9})]
)
async def test_an_open_with_a_wrong_field_is_refused_by_its_name(
    agent: AgentServer, field: str, change: dict[str, Any]
) -> None:
    async with FrameOrchestrator(agent.address) as peer:
        opening = peer.opening(agent.instance_id)
        opening.open.MergeFrom(session_pb2.Open(**change))
        if field == "orchestrator_id":
            opening.open.ClearField("orchestrator_id")
        await peer.send(opening)
        error = error_of(await peer.receive("failure"))
        assert isinstance(error, errors.InvalidArgument)
        assert error.field_violations[0].field == f"open.{field}"
        await peer.open(agent.instance_id)


async def test_contract_rule_4_a_newer_stream_replaces_the_older(agent: AgentServer, dial: Dial) -> None:
    older = await dial(agent)
    newer = await dial(agent)
    assert isinstance(await older.ended(), errors.SessionReplaced)
    await still_lives(newer)


async def test_contract_rule_11_an_unknown_arm_spares_its_neighbours(agent: AgentServer, dial: Dial) -> None:
    peer = await dial(agent)
    first, second = peer.ref("one"), peer.ref("two")
    unknown = b"\x0a\x05\xba\x06\x02hi"  # field 103, which no version has
    message = agent_service_pb2.SessionRequest
    await peer.send_raw(
        message(frames=[peer.assignment(first, "a")]).SerializeToString()
        + unknown
        + message(frames=[peer.assignment(second, "b")]).SerializeToString()
    )
    assert isinstance(error_of(await peer.receive("failure")), errors.UnknownFrame)
    assert (await peer.result(first)).output[0].text == "A"
    assert (await peer.result(second)).output[0].text == "B"


async def test_contract_rule_11_an_unknown_arm_with_an_ack_is_answered(agent: AgentServer, dial: Dial) -> None:
    peer = await dial(agent)
    frame = session_pb2.OrchestratorFrame(task=peer.ref("one"), ack=1).SerializeToString() + b"\xba\x06\x02hi"
    await peer.send_raw(b"\x0a" + bytes([len(frame)]) + frame)
    refused = await peer.receive("failure")
    assert isinstance(error_of(refused), errors.UnknownFrame)
    assert refused.task.task_id == "one"


async def test_an_answer_and_news_that_no_task_waits_for_are_dropped(agent: AgentServer, dial: Dial) -> None:
    peer = await dial(agent)
    ref = peer.ref("one")
    await peer.send(session_pb2.OrchestratorFrame(task=ref, input=session_pb2.Input(input_id="i")))
    await peer.send(session_pb2.OrchestratorFrame(task=ref, update_memory=session_pb2.UpdateMemory()))
    await peer.send(peer.assignment(ref, "hallo"))
    await peer.send(session_pb2.OrchestratorFrame(task=ref, sequence=2, input=session_pb2.Input(input_id="i")))
    assert (await peer.result(ref)).output[0].text == "HALLO"


async def test_contract_rule_10_invalid_utf8_hurts_its_own_frame_alone(agent: AgentServer, dial: Dial) -> None:
    peer = await dial(agent)
    refs = [peer.ref(name) for name in ("one", "two", "three")]
    frames = [peer.assignment(ref, f"hallo {ref.task_id}") for ref in refs]
    raw = agent_service_pb2.SessionRequest(frames=frames).SerializeToString()
    assert raw.count(b"hallo two") == 1
    await peer.send_raw(raw.replace(b"hallo two", b"hallo \xff\xfe\xff"))
    refused = await peer.receive("failure")
    assert isinstance(error_of(refused), errors.MalformedMessage)
    assert refused.task == refs[1]
    assert (await peer.result(refs[0])).output[0].text == "HALLO ONE"
    assert (await peer.result(refs[2])).output[0].text == "HALLO THREE"


async def test_an_unsplittable_message_is_refused_the_stream_lives(agent: AgentServer, dial: Dial) -> None:
    peer = await dial(agent)
    ref = peer.ref("before")
    whole = agent_service_pb2.SessionRequest(frames=[peer.assignment(ref, "x")]).SerializeToString()
    await peer.send_raw(whole + b"\x0a\x7f cut off")
    assert isinstance(error_of(await peer.receive("failure")), errors.MalformedMessage)
    assert (await peer.result(ref)).output[0].text == "X"
    await still_lives(peer)


async def test_describe_returns_registration_protocols_and_features(agent: AgentServer) -> None:
    async with FrameOrchestrator(agent.address) as peer:
        response = await peer.stub.Describe(agent_service_pb2.DescribeRequest(), timeout=5.0)
    assert (response.registration.role, response.registration.address) == ("worker", agent.address)
    assert list(response.protocols) == [1]
    assert {"adopt", "park"} <= set(response.features)


async def test_describe_returns_the_tasks_in_progress(serve: Serve, gate: Gate) -> None:
    agent = await serve(gate.handle)

    async def running(peer: FrameOrchestrator) -> int:
        return int((await peer.stub.Describe(agent_service_pb2.DescribeRequest(), timeout=5.0)).running_tasks)

    async with FrameOrchestrator(agent.address) as peer:
        await peer.open()
        before = await running(peer)
        await peer.assign(peer.ref("one"), "x")
        await gate.reached()
        assert (before, await running(peer)) == (0, 1)
        gate.open.set()
        await peer.result(peer.ref("one"))
        assert await running(peer) == 0


async def test_deliver_answers_not_served(agent: AgentServer) -> None:
    async with FrameOrchestrator(agent.address) as peer:
        with pytest.raises(grpc.aio.AioRpcError) as unary:
            await peer.stub.Deliver(agent_service_pb2.DeliverRequest(request_id="r"), timeout=5.0)
    error = status.from_rpc_error(unary.value)
    assert (type(error), error.reason) == (errors.Unimplemented, "NOT_SERVED")


async def test_health_and_reflection_answer(agent: AgentServer) -> None:
    async with grpc.aio.insecure_channel(agent.address) as channel:
        health: Any = health_pb2_grpc.HealthStub(channel)
        request = health_pb2.HealthCheckRequest(service="archon.api.agent.v1.AgentService")
        assert (await health.Check(request, timeout=5.0)).status == health_pb2.HealthCheckResponse.SERVING

        reflection: Any = reflection_pb2

        async def listing() -> Any:
            yield reflection.ServerReflectionRequest(list_services="")

        aio_channel: Any = channel
        stub: Any = reflection_pb2_grpc.ServerReflectionStub(aio_channel)
        async for answer in stub.ServerReflectionInfo(listing(), timeout=5.0):
            names = {service.name for service in answer.list_services_response.service}
            assert "archon.api.agent.v1.AgentService" in names
