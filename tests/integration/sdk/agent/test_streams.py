"""Tasks outlive the streams that assigned them: parking, adoption, and credit over several orchestrators."""

from __future__ import annotations

import pytest

from archon import errors, status
from archon.agent import AgentServer, TaskContext
from archon.api.agent.v1 import session_pb2
from archon.api.common.v1 import common_pb2
from archon.testing.frame_orchestrator import FrameOrchestrator
from tests.fixtures.agents import Dial, Gate, Serve
from tests.fixtures.waiting import until


async def echo(task: TaskContext) -> str:
    return task.text


async def begun_and_broken(agent: AgentServer, dial: Dial, gate: Gate, ref: common_pb2.TaskRef) -> None:
    """Assigns a task on a stream and breaks the stream when the handler has begun."""
    peer = await dial(agent)
    await peer.assign(ref)
    await gate.reached()
    await peer.break_off()


def reason(frame: session_pb2.AgentFrame) -> str:
    return status.from_failure(frame.reject.failure).reason


async def test_contract_rule_4_a_result_is_parked_until_adoption(serve: Serve, dial: Dial, gate: Gate) -> None:
    agent = await serve(gate.handle)
    ref = common_pb2.TaskRef(task_id="one", run_id="run-1", attempt=1, epoch=1)
    await begun_and_broken(agent, dial, gate, ref)
    gate.open.set()
    peer = await dial(agent)
    await peer.send(peer.adoption(ref))
    assert (await peer.result(ref)).output[0].text == "done"
    assert gate.calls == 1


async def test_contract_rule_5_adoption_while_working_gives_adopted(serve: Serve, dial: Dial, gate: Gate) -> None:
    agent = await serve(gate.handle)
    ref = common_pb2.TaskRef(task_id="one", run_id="run-1", attempt=1, epoch=1)
    await begun_and_broken(agent, dial, gate, ref)
    peer = await dial(agent, "orchestrator-2")
    ref.epoch = 2  # the epoch of a new owner
    await peer.send(peer.adoption(ref))
    adopted = await peer.receive("adopted")
    assert adopted.adopted.last_applied == 1
    gate.open.set()
    result = await peer.receive("result")
    assert result.task == ref
    assert (result.result.output[0].text, gate.calls) == ("done", 1)


async def test_a_new_owner_that_counts_its_frames_from_1_can_cancel(serve: Serve, dial: Dial, gate: Gate) -> None:
    agent = await serve(gate.handle)
    ref = common_pb2.TaskRef(task_id="one", run_id="run-1", attempt=1, epoch=1)
    await begun_and_broken(agent, dial, gate, ref)
    peer = await dial(agent, "orchestrator-2")
    ref.epoch = 2
    await peer.send(peer.adoption(ref), peer.cancellation(ref))
    assert (await peer.result(ref)).state == common_pb2.TASK_STATE_CANCELED


async def test_contract_rule_5_adoption_of_an_unknown_task_is_rejected(serve: Serve, dial: Dial) -> None:
    peer = await dial(await serve(echo))
    current = peer.ref("one", attempt=2)
    await peer.assign(current)
    await peer.receive("result")
    for unknown in (peer.ref("other"), peer.ref("one", attempt=1), peer.ref("one", attempt=3)):
        await peer.send(peer.adoption(unknown))
        rejected = await peer.receive("reject", unknown)
        assert (reason(rejected), rejected.task) == ("NOT_HELD", unknown)


async def test_a_task_resent_after_a_lost_ack_runs_once(serve: Serve, dial: Dial, gate: Gate) -> None:
    peer = await dial(await serve(gate.handle))
    ref = peer.ref("one")
    frame = peer.assignment(ref, "x")
    await peer.send(frame, frame)
    await gate.reached()
    await peer.send(frame)
    gate.open.set()
    first = await peer.receive("result")
    await peer.send(peer.adoption(ref))
    second = await peer.receive("result")
    assert first.SerializeToString() == second.SerializeToString()
    assert gate.calls == 1


async def test_a_late_copy_of_an_acked_assignment_is_not_executed(serve: Serve, dial: Dial, gate: Gate) -> None:
    agent = await serve(gate.handle)
    peer = await dial(agent)
    ref = peer.ref("one")
    frame = peer.assignment(ref, "x")
    gate.open.set()
    await peer.send(frame)
    await peer.receive("result")
    await peer.send(peer.adoption(ref, last_applied=1))
    await until(lambda: len(agent.attempts) == 0)
    other = peer.ref("another")
    await peer.send(frame, peer.assignment(other, "y"))
    await peer.receive("result", other)
    assert gate.calls == 2, "the late copy must not be executed"


async def test_a_result_that_is_applied_already_is_not_sent_again(serve: Serve, dial: Dial) -> None:
    peer = await dial(await serve(echo))
    ref = peer.ref("one")
    await peer.assign(ref, "x")
    await peer.receive("result")
    await peer.send(peer.adoption(ref, last_applied=1), peer.adoption(ref))
    assert reason(await peer.receive("reject")) == "NOT_HELD"
    assert sum(frame.HasField("result") for frame in peer.frames) == 1


async def test_a_discarded_result_is_not_held(serve: Serve, dial: Dial) -> None:
    peer = await dial(await serve(echo))
    ref = peer.ref("one")
    await peer.assign(ref, "x")
    await peer.receive("result")
    discarded = session_pb2.OrchestratorFrame(discarded=session_pb2.Discarded(message="too late"))
    await peer.send(peer.stamped(ref, discarded, sequence=0), peer.adoption(ref))
    assert reason(await peer.receive("reject")) == "NOT_HELD"


async def test_a_gap_that_the_orchestrator_reports_is_resent(serve: Serve, dial: Dial) -> None:
    peer = await dial(await serve(echo))
    ref = peer.ref("one")
    await peer.assign(ref, "x")
    first = await peer.receive("result")
    gap = session_pb2.OrchestratorFrame(task=ref)
    gap.failure.CopyFrom(status.to_failure(errors.SequenceGap("a gap", metadata={"expected": "1"})))
    await peer.send(gap)
    assert (await peer.receive("result")).sequence == first.sequence


async def test_durability_19_a_parked_result_is_offered_to_any_stream(
    serve: Serve, dial: Dial, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("archon.agent.agent_sessions.SWEEP_INTERVAL", 0.05)
    agent = await serve(gate.handle)
    ref = common_pb2.TaskRef(task_id="one", run_id="run-1", attempt=1, epoch=1)
    await begun_and_broken(agent, dial, gate, ref)
    gate.open.set()
    peer = await dial(agent, "orchestrator-2")
    offered = await peer.receive("result")
    assert offered.task == ref
    await peer.send(peer.acknowledgement(ref, offered.sequence), peer.adoption(ref))
    assert reason(await peer.receive("reject")) == "NOT_HELD"


async def test_durability_19_an_unacked_result_is_offered_to_others(
    serve: Serve, dial: Dial, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("archon.agent.agent_sessions.SWEEP_INTERVAL", 0.05)
    agent = await serve(echo)
    first, second = await dial(agent, "orchestrator-1"), await dial(agent, "orchestrator-2")
    ref = common_pb2.TaskRef(task_id="one", run_id="run-1", attempt=1, epoch=1)
    await first.assign(ref, "x")
    assert (await second.receive("result")).task == ref


async def test_an_attempt_without_a_stream_reports_and_is_cancellable(
    serve: Serve, dial: Dial, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("archon.agent.agent_sessions.SWEEP_INTERVAL", 0.05)
    agent = await serve(gate.handle)
    ref = common_pb2.TaskRef(task_id="one", run_id="run-1", attempt=1, epoch=1)
    await begun_and_broken(agent, dial, gate, ref)
    peer = await dial(agent, "orchestrator-2")
    assert (await peer.receive("adopted")).task == ref
    ref.epoch = 2
    await peer.send(peer.cancellation(ref))
    offered = await peer.receive("result")
    assert offered.result.state == common_pb2.TASK_STATE_CANCELED
    await peer.send(peer.acknowledgement(ref, offered.sequence))
    await until(lambda: len(agent.attempts) == 0)


async def test_durability_19_a_result_expires_after_its_park_ttl(
    serve: Serve, dial: Dial, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("archon.agent.agent_sessions.SWEEP_INTERVAL", 0.05)
    agent = await serve(echo)
    async with FrameOrchestrator(agent.address) as peer:
        await peer.open(agent.instance_id, park_ttl=0.1)
        await peer.assign(peer.ref("one"))
        await peer.receive("result")
        await until(lambda: len(agent.attempts) == 0)
        await peer.send(peer.adoption(peer.ref("one")))
        assert reason(await peer.receive("reject")) == "NOT_HELD"


async def test_contract_rule_2_capacity_is_split_over_open_sessions(serve: Serve, dial: Dial) -> None:
    agent = await serve(echo, max_tasks=5)
    first = await dial(agent, "orchestrator-1")
    assert first.frames[0].ready.max_tasks == 5
    second = await dial(agent, "orchestrator-2")
    assert second.frames[0].ready.max_tasks == 2
    assert (await first.receive("credit")).credit.max_tasks == 2
    await second.break_off()
    assert (await first.receive("credit")).credit.max_tasks == 5


async def test_durability_26_each_session_gets_at_least_one(serve: Serve, dial: Dial) -> None:
    agent = await serve(echo, max_tasks=1)
    for number in range(3):
        peer = await dial(agent, f"orchestrator-{number}")
        assert peer.frames[0].ready.max_tasks == 1


async def test_durability_19_full_parking_gives_no_credit(
    serve: Serve, dial: Dial, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("archon.agent.attempt_table.MAX_PARKED_BYTES", 10_000)
    peer = await dial(await serve(echo))
    ref = peer.ref("one")
    await peer.assign(ref, "x" * 20_000)
    frame = await peer.receive("result")
    assert (await peer.receive("credit")).credit.max_tasks == 0
    await peer.send(peer.acknowledgement(ref, frame.sequence))
    assert (await peer.receive("credit")).credit.max_tasks == 8


async def test_the_memory_of_finished_tasks_and_runs_is_bounded(
    serve: Serve, dial: Dial, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("archon.agent.attempt_table.MAX_OVER", 2)
    monkeypatch.setattr("archon.agent.attempt_table.MAX_EPOCHS", 3)
    agent = await serve(echo)
    peer = await dial(agent)
    for number in range(6):
        ref = common_pb2.TaskRef(task_id=f"task-{number}", run_id=f"run-{number}", attempt=1, epoch=1)
        await peer.assign(ref)
        frame = await peer.receive("result")
        await peer.send(peer.acknowledgement(ref, frame.sequence))
    await until(lambda: len(agent.attempts) == 0)
    assert (len(agent.attempts._over), len(agent.attempts._epochs)) == (2, 3)


async def test_a_stream_without_open_does_not_stay(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("archon.agent.agent_sessions.SWEEP_INTERVAL", 0.02)
    monkeypatch.setattr("archon.agent.session.OPEN_TIMEOUT", 0.05)
    agent = await serve(echo)
    async with FrameOrchestrator(agent.address) as peer:
        assert isinstance(await peer.ended(), errors.Unavailable)


async def test_an_orchestrator_that_does_not_read_loses_its_stream(serve: Serve, dial: Dial, gate: Gate) -> None:
    agent = await serve(gate.handle)
    ref = common_pb2.TaskRef(task_id="one", run_id="run-1", attempt=1, epoch=1)
    peer = await dial(agent)
    await peer.assign(ref)
    await gate.reached()
    (session,) = agent._sessions
    session.queue._max_waiting = 0  # as if the queue were full
    gate.open.set()
    error = await peer.ended()
    assert isinstance(error, errors.ResourceExhausted)
    assert error.retry_delay
    again = await dial(agent)
    await again.send(again.adoption(ref))
    assert (await again.result(ref)).output[0].text == "done"
