"""The Go agent frame by frame with a scripted orchestrator: it behaves like the Python member."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any, Protocol

import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from archon import errors, status
from archon.api.agent.v1 import session_pb2
from archon.api.common.v1 import common_pb2
from archon.testing.frame_orchestrator import FrameOrchestrator
from tests.interop.go_agent import GoAgent, StartGo

pytestmark = pytest.mark.slow

REQUIREMENTS = "R1. It must be blue.\nR2. It must be round."
FEATURES = ["adopt", "cancel", "credit", "drain", "park", "progress", "record"]


class Dial(Protocol):
    """Opens a session that ends with the test."""

    async def __call__(self, orchestrator_id: str = "orchestrator-1") -> FrameOrchestrator: ...


@pytest.fixture
async def agent(start_go: StartGo) -> GoAgent:
    return await start_go()


@pytest.fixture
async def dial(agent: GoAgent) -> AsyncIterator[Dial]:
    async with AsyncExitStack() as stack:

        async def connect(orchestrator_id: str = "orchestrator-1") -> FrameOrchestrator:
            peer = await stack.enter_async_context(
                FrameOrchestrator(agent.address, orchestrator_id=orchestrator_id, timeout=5.0)
            )
            await peer.open()
            return peer

        yield connect


@pytest.fixture
async def peer(dial: Dial) -> FrameOrchestrator:
    return await dial()


def task(peer: FrameOrchestrator, ref: common_pb2.TaskRef, delay: float = 0.0) -> session_pb2.OrchestratorFrame:
    """Returns an assignment whose execution takes `delay` seconds."""
    frame = peer.assignment(ref, "Build it.", context=[("requirements", REQUIREMENTS)])
    frame.assign_task.metadata["dev.archon.interop/delay"] = f"{delay}s"
    return frame


async def refused(peer: FrameOrchestrator, ref: common_pb2.TaskRef | None = None) -> str:
    """Receives the next failure frame and returns its reason."""
    return status.from_failure((await peer.receive("failure", ref)).failure).reason


async def rejected(peer: FrameOrchestrator, ref: common_pb2.TaskRef) -> str:
    """Receives the next reject frame and returns its reason."""
    return status.from_failure((await peer.receive("reject", ref)).reject.failure).reason


async def still_serves(peer: FrameOrchestrator) -> None:
    ref = peer.ref("after")
    await peer.send(task(peer, ref))
    assert (await peer.result(ref)).state == common_pb2.TASK_STATE_COMPLETED


async def test_ready_lists_the_features_that_both_sides_support(agent: GoAgent) -> None:
    async with FrameOrchestrator(agent.address) as peer:
        opening = peer.opening(await peer.instance_id(), protocol=2)
        opening.open.features.append("telepathy")
        await peer.send(opening)
        ready = (await peer.receive("ready")).ready
        assert (sorted(ready.features), ready.protocol, ready.max_tasks) == (FEATURES, 1, 4)


async def test_contract_rule_4_an_open_for_another_instance_ends_it(agent: GoAgent) -> None:
    async with FrameOrchestrator(agent.address) as peer:
        await peer.send(peer.opening("another-instance"))
        assert isinstance(await peer.ended(), errors.WrongInstance)


async def test_contract_rule_4_a_second_open_fails_the_stream_stays(peer: FrameOrchestrator) -> None:
    await peer.send(peer.opening(await peer.instance_id()))
    assert await refused(peer) == "SESSION_ALREADY_OPEN"
    await still_serves(peer)


async def test_contract_rule_4_a_newer_stream_replaces_the_older(dial: Dial) -> None:
    older = await dial()
    newer = await dial()
    assert isinstance(await older.ended(), errors.SessionReplaced)
    await still_serves(newer)


async def test_a_frame_before_open_is_refused_and_the_stream_lives(agent: GoAgent) -> None:
    async with FrameOrchestrator(agent.address) as peer:
        await peer.send(session_pb2.OrchestratorFrame(heartbeat=session_pb2.Heartbeat(counter=1)))
        assert await refused(peer) == "SESSION_NOT_OPEN"
        await peer.open()
        await still_serves(peer)


async def test_contract_rule_3_a_heartbeat_is_echoed_while_a_task_runs(peer: FrameOrchestrator) -> None:
    ref = peer.ref("one")
    await peer.send(task(peer, ref, delay=30.0))
    await peer.receive("progress", ref)
    await peer.send(session_pb2.OrchestratorFrame(heartbeat=session_pb2.Heartbeat(counter=41)))
    assert (await peer.receive("heartbeat")).heartbeat.echo == 41


async def test_contract_rule_12_records_precede_their_result(peer: FrameOrchestrator) -> None:
    ref = peer.ref("one")
    await peer.send(task(peer, ref))
    record, result = await peer.receive("record", ref), await peer.receive("result", ref)
    assert (record.sequence, result.sequence, result.ack) == (1, 2, 1)
    assert [item.role for item in result.result.used] == ["requirements"]
    assert result.result.output[0].text.splitlines()[1] == "C2. GoComponentR2 — covers R2: It must be round."


async def test_contract_rule_5_a_gap_is_answered_with_the_expected_seq(peer: FrameOrchestrator) -> None:
    ref, gap = peer.ref("one"), peer.ref("two")
    await peer.send(peer.stamped(gap, task(peer, gap), sequence=2))
    failure = (await peer.receive("failure", gap)).failure
    assert (status.from_failure(failure).reason, failure.metadata["expected"]) == ("SEQUENCE_GAP", "1")
    await peer.send(task(peer, ref, delay=30.0))
    await peer.send(peer.stamped(ref, peer.cancellation(ref), sequence=3))
    failure = (await peer.receive("failure", ref)).failure
    assert failure.metadata["expected"] == "2"


async def test_contract_rule_5_a_task_that_is_sent_twice_runs_once(agent: GoAgent, peer: FrameOrchestrator) -> None:
    ref = peer.ref("one")
    frame = task(peer, ref)
    await peer.send(frame, frame)
    await peer.result(ref)
    await still_serves(peer)
    assert agent.logged("begin") == ["one 1", "after 1"]


async def test_contract_rule_5_a_result_is_kept_until_it_is_acked(dial: Dial) -> None:
    older = await dial()
    ref = older.ref("one")
    await older.send(task(older, ref))
    await older.receive("result", ref)
    await older.break_off()
    newer = await dial()
    newer.epoch = 2
    ref = newer.ref("one")
    await newer.send(newer.adoption(ref))
    assert (await newer.receive("record", ref)).sequence == 1
    parked = await newer.receive("result", ref)
    assert (parked.sequence, parked.task.epoch) == (2, 2)
    await newer.send(newer.acknowledgement(ref, 2), newer.adoption(ref))
    assert await rejected(newer, ref) == "NOT_HELD"


async def test_contract_rule_5_an_adopted_task_has_the_new_epoch(dial: Dial) -> None:
    older = await dial()
    ref = older.ref("one")
    await older.send(task(older, ref, delay=0.5))
    await older.receive("progress", ref)
    await older.break_off()
    newer = await dial("orchestrator-2")
    newer.epoch = 5
    ref = newer.ref("one")
    await newer.send(newer.adoption(ref))
    assert (await newer.receive("adopted", ref)).adopted.last_applied == 1
    assert (await newer.receive("result", ref)).task.epoch == 5


async def test_a_frame_below_the_highest_epoch_of_its_run_is_refused(peer: FrameOrchestrator) -> None:
    peer.epoch = 2
    ref = peer.ref("one")
    await peer.send(task(peer, ref, delay=30.0))
    peer.epoch = 1
    await peer.send(peer.cancellation(peer.ref("one")))
    assert await refused(peer, ref) == "STALE_EPOCH"


async def test_contract_rule_5_a_gap_at_the_orchestrator_is_resent(peer: FrameOrchestrator) -> None:
    ref = peer.ref("one")
    await peer.send(task(peer, ref))
    await peer.receive("result", ref)
    gap = session_pb2.OrchestratorFrame(task=ref)
    gap.failure.CopyFrom(status.to_failure(errors.SequenceGap("gap", metadata={"expected": "2"})))
    await peer.send(gap)
    assert (await peer.receive("result", ref)).sequence == 2


async def test_contract_rule_11_an_unknown_frame_is_answered(
    peer: FrameOrchestrator,
) -> None:
    unknown = session_pb2.OrchestratorFrame.FromString(b"\xa2\x06\x00")  # field 100, which no version has
    ref = peer.ref("one")
    await peer.send(unknown, task(peer, ref))
    assert await refused(peer) == "UNKNOWN_FRAME"
    await peer.result(ref)


async def test_contract_rule_2_sessions_share_capacity_excess_rejected(dial: Dial) -> None:
    first = await dial("orchestrator-1")
    await dial("orchestrator-2")
    assert (await first.receive("credit")).credit.max_tasks == 2
    refs = [first.ref(f"task-{number}") for number in range(5)]
    await first.send(*(task(first, ref, delay=30.0) for ref in refs))
    reject = (await first.receive("reject", refs[4])).reject.failure
    assert status.from_failure(reject).reason == "NO_CAPACITY" and reject.retry_delay.ToTimedelta()


async def test_a_task_whose_time_is_over_fails(peer: FrameOrchestrator) -> None:
    ref = peer.ref("one")
    frame = task(peer, ref, delay=30.0)
    frame.assign_task.remaining.FromMilliseconds(100)
    await peer.send(frame)
    result = await peer.result(ref)
    assert status.from_failure(result.failure).reason == "DEADLINE_EXCEEDED"


async def test_a_discarded_result_is_forgotten(peer: FrameOrchestrator) -> None:
    ref = peer.ref("one")
    await peer.send(task(peer, ref))
    await peer.receive("result", ref)
    discarded = session_pb2.OrchestratorFrame(task=ref, discarded=session_pb2.Discarded(message="too late"))
    await peer.send(discarded, peer.adoption(ref))
    assert await rejected(peer, ref) == "NOT_HELD"


async def test_sigterm_drains_and_ends_with_ok(agent: GoAgent, peer: FrameOrchestrator) -> None:
    ref, late = peer.ref("one"), peer.ref("two")
    await peer.send(task(peer, ref, delay=1.5))
    await peer.receive("progress", ref)
    agent.send(signal.SIGTERM)
    await peer.receive("drain")
    assert (await peer.receive("credit")).credit.max_tasks == 0
    await peer.send(task(peer, late))
    assert await rejected(peer, late) == "DRAINING"
    assert (await peer.result(ref)).state == common_pb2.TASK_STATE_COMPLETED
    assert await peer.ended() is None
    assert await agent.exit_code() == 0


async def test_it_answers_health_checks_and_reflection(agent: GoAgent) -> None:
    async with grpc.aio.insecure_channel(agent.address) as channel:
        aio_channel: Any = channel
        health: Any = health_pb2_grpc.HealthStub(aio_channel)
        status_now = (await health.Check(health_pb2.HealthCheckRequest(), timeout=5.0)).status
        assert status_now == health_pb2.HealthCheckResponse.SERVING
        stub: Any = reflection_pb2_grpc.ServerReflectionStub(aio_channel)
        requests = [reflection_pb2.ServerReflectionRequest(list_services="")]
        (answer,) = [answer async for answer in stub.ServerReflectionInfo(iter(requests), timeout=5.0)]
        names = {service.name for service in answer.list_services_response.service}
        assert "archon.api.agent.v1.AgentService" in names
