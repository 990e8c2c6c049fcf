"""Tasks on a session: answers, ends, cancellation, capacity and sequence numbers."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from archon import context, errors, status
from archon.agent import Answer, TaskContext
from archon.api.agent.v1 import agent_pb2, session_pb2
from archon.api.common.v1 import common_pb2
from archon.frames import SUPERSEDED
from archon.testing.frame_orchestrator import FrameOrchestrator
from archon.types import Usage
from tests.fixtures.agents import Dial, Gate, Serve
from tests.fixtures.waiting import until

S = common_pb2


def failure_of(result: agent_pb2.TaskResult) -> errors.ArchonError:
    return status.from_failure(result.failure)


async def is_forgotten(peer: FrameOrchestrator, ref: common_pb2.TaskRef) -> bool:
    await peer.send(peer.adoption(ref))
    rejected = await peer.receive("reject", ref)
    return failure_of(agent_pb2.TaskResult(failure=rejected.reject.failure)).reason == "NOT_HELD"


async def test_a_task_gives_one_result_that_is_dropped_once_acked(serve: Serve, dial: Dial) -> None:
    async def greet(task: TaskContext) -> str:
        return f"hello {task.text}"

    peer = await dial(await serve(greet))
    ref = peer.ref("one")
    await peer.assign(ref, "you")
    frame = await peer.receive("result")
    assert frame.task == ref
    assert (frame.sequence, frame.ack) == (1, 1)
    assert (frame.result.state, frame.result.output[0].text) == (S.TASK_STATE_COMPLETED, "hello you")
    await peer.send(peer.acknowledgement(ref, frame.sequence))
    assert await is_forgotten(peer, ref)


async def test_deltas_precede_the_result_and_carry_their_offset(serve: Serve, dial: Dial) -> None:
    async def write(task: TaskContext) -> str:
        for piece in ("ä", "b", "c" * 40_000):
            task.write(piece)
        return "äbc"

    peer = await dial(await serve(write))
    await peer.assign(peer.ref("one"))
    await peer.receive("result")
    deltas = [frame.progress for frame in peer.frames if frame.WhichOneof("frame") == "progress"]
    assert peer.frames[-1].HasField("result")
    assert "".join(delta.text for delta in deltas) == "äb" + "c" * 40_000
    assert [delta.offset for delta in deltas[:3]] == [0, 2, 3]
    assert max(len(delta.text) for delta in deltas) <= 16 * 1024


async def test_contract_rule_3_a_heartbeat_is_echoed_during_a_handler(serve: Serve, dial: Dial, gate: Gate) -> None:
    peer = await dial(await serve(gate.handle))
    await peer.assign(peer.ref("one"))
    await gate.reached()
    await peer.send(session_pb2.OrchestratorFrame(heartbeat=session_pb2.Heartbeat(counter=41)))
    assert (await peer.receive("heartbeat")).heartbeat.echo == 41
    assert (await peer.receive(None)).ack == 1  # a heartbeat also sends acknowledgements that wait


async def test_a_plain_function_runs_on_a_thread_and_may_write_from_it(serve: Serve, dial: Dial) -> None:
    threads: list[threading.Thread] = []

    def work(task: TaskContext) -> str:
        task.write("from a thread")
        threads.append(threading.current_thread())
        return f"{task.task_id} in {context.current().run_id}"

    peer = await dial(await serve(work))
    ref = peer.ref("one")
    await peer.assign(ref)
    assert (await peer.result(ref)).output[0].text == "one in run-1"
    assert [frame.WhichOneof("frame") for frame in peer.frames[-2:]] == ["progress", "result"]
    assert threads != [threading.main_thread()]


async def test_cancel_gives_canceled_quickly(serve: Serve, dial: Dial, gate: Gate) -> None:
    peer = await dial(await serve(gate.handle))
    ref = peer.ref("one")
    await peer.assign(ref)
    await gate.reached()
    began = time.monotonic()
    await peer.send(peer.cancellation(ref))
    assert (await peer.result(ref)).state == S.TASK_STATE_CANCELED
    assert time.monotonic() - began < 2.0


async def test_a_cancel_in_the_same_message_as_the_task_gives_canceled(serve: Serve, dial: Dial, gate: Gate) -> None:
    peer = await dial(await serve(gate.handle, max_tasks=1))
    ref, after = peer.ref("one"), peer.ref("two")
    await peer.send(peer.assignment(ref), peer.cancellation(ref))
    assert (await peer.result(ref)).state == S.TASK_STATE_CANCELED
    gate.open.set()
    await peer.assign(after)
    assert (await peer.result(after)).state == S.TASK_STATE_COMPLETED


async def test_a_cancelled_handler_may_return_a_partial_answer(serve: Serve, dial: Dial) -> None:
    begun = asyncio.Event()

    async def collect(task: TaskContext) -> str:
        try:
            begun.set()
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "half of it"
        return "all of it"

    peer = await dial(await serve(collect))
    ref = peer.ref("one")
    await peer.assign(ref)
    await asyncio.wait_for(begun.wait(), 5.0)
    await peer.send(peer.cancellation(ref))
    result = await peer.result(ref)
    assert (result.state, result.output[0].text) == (S.TASK_STATE_COMPLETED, "half of it")


async def test_a_handler_that_ignores_cancel_loses_its_task_and_slot(
    serve: Serve, dial: Dial, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("archon.agent.attempt.CANCEL_GRACE", 0.05)
    begun, released = asyncio.Event(), asyncio.Event()

    async def stubborn(task: TaskContext) -> str:
        begun.set()
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                pass
        return "too late"

    peer = await dial(await serve(stubborn, max_tasks=2))
    ref = peer.ref("one")
    await peer.assign(ref)
    await asyncio.wait_for(begun.wait(), 5.0)
    await peer.send(peer.cancellation(ref))
    assert (await peer.receive("result", ref)).result.state == S.TASK_STATE_CANCELED
    assert (await peer.receive("credit")).credit.max_tasks == 1
    released.set()
    assert (await peer.receive("credit")).credit.max_tasks == 2
    assert sum(frame.HasField("result") for frame in peer.frames) == 1


async def test_contract_rule_1_a_task_whose_time_is_over_fails(serve: Serve, dial: Dial, gate: Gate) -> None:
    peer = await dial(await serve(gate.handle))
    ref = peer.ref("one")
    await peer.assign(ref, remaining=0.05)
    result = await peer.result(ref)
    assert result.state == S.TASK_STATE_FAILED
    assert isinstance(failure_of(result), errors.DeadlineExceeded)


async def test_the_deadline_of_a_task_limits_the_handlers_calls(serve: Serve, dial: Dial) -> None:
    async def left(task: TaskContext) -> str:
        return f"{context.timeout(100.0):.0f}"

    peer = await dial(await serve(left))
    ref = peer.ref("one")
    await peer.assign(ref, remaining=50.4)
    assert (await peer.result(ref)).output[0].text == "50"


async def test_contract_rule_12_records_precede_the_result_until_acked(serve: Serve, dial: Dial) -> None:
    async def call(task: TaskContext) -> Answer:
        used = Usage(input_tokens=3, output_tokens=2)
        for size in (1, 150_000):
            task.record_model_call("m", {"q": "x" * size}, {"a": 1}, started=1.0, seconds=0.5, usage=used)
        return Answer("ok", publish=False)

    peer = await dial(await serve(call), max_message_bytes=140_000)
    ref = peer.ref("one")
    await peer.assign(ref)
    first, second, result = [await peer.receive(arm) for arm in ("record", "record", "result")]
    assert [first.sequence, second.sequence, result.sequence] == [1, 2, 3]
    assert (first.record.request_json, first.record.target) == ('{"q":"x"}', "m")
    assert "archon.dev/left-out" in second.record.request_json
    assert (result.result.usage.input_tokens, result.result.usage.model_calls) == (6, 2)
    assert result.result.no_publish
    await peer.send(peer.acknowledgement(ref, 2), peer.adoption(ref))
    again = await peer.receive("result")
    assert again.sequence == 3


async def test_a_task_above_capacity_is_rejected_with_a_delay(serve: Serve, dial: Dial, gate: Gate) -> None:
    peer = await dial(await serve(gate.handle, max_tasks=2))
    refs = [peer.ref(name) for name in ("one", "two", "three")]
    frames = [peer.assignment(ref) for ref in refs]
    await peer.send(*frames)
    rejected = await peer.receive("reject")
    error = status.from_failure(rejected.reject.failure)
    assert rejected.task == refs[2]
    assert (error.reason, error.retry_delay) == ("NO_CAPACITY", 0.2)
    gate.open.set()
    await peer.result(refs[0])
    assert (await peer.receive("credit")).credit.max_tasks == 2  # sent again, because a reject had halved it
    fourth = peer.ref("four")
    await peer.send(frames[2], peer.assignment(fourth))
    await peer.result(fourth)
    assert gate.calls == 3, "a late copy of a rejected assignment must not be executed"


async def test_a_newer_attempt_takes_the_place_of_the_older(serve: Serve, dial: Dial, gate: Gate) -> None:
    peer = await dial(await serve(gate.handle, max_tasks=1))
    older, newer = peer.ref("one"), peer.ref("one", attempt=2)
    await peer.assign(older)
    await gate.reached()
    await peer.assign(newer)
    await until(lambda: gate.calls == 2)
    await peer.send(peer.stamped(older, session_pb2.OrchestratorFrame(assign_task=agent_pb2.AssignTask()), sequence=1))
    gate.open.set()
    assert (await peer.receive("result")).task == newer
    assert gate.calls == 2


async def test_durability_12_a_stale_epoch_is_refused(serve: Serve, dial: Dial, gate: Gate) -> None:
    peer = await dial(await serve(gate.handle))
    peer.epoch = 5
    current = peer.ref("one")
    await peer.assign(current)
    await gate.reached()
    peer.epoch = 4
    stale = [peer.cancellation(peer.ref("one")), peer.assignment(peer.ref("two"))]
    await peer.send(*stale)
    for _ in stale:
        error = status.from_failure((await peer.receive("failure")).failure)
        assert (type(error), error.reason) == (errors.Aborted, "STALE_EPOCH")
    gate.open.set()
    assert (await peer.result(current)).state == S.TASK_STATE_COMPLETED
    assert gate.calls == 1


async def test_contract_rule_5_a_sequence_gap_is_mended_by_resending(serve: Serve, dial: Dial, gate: Gate) -> None:
    peer = await dial(await serve(gate.handle))
    ref = peer.ref("one")
    late = peer.assignment(ref)
    cancel = peer.cancellation(ref)
    await peer.send(
        peer.stamped(peer.ref("two"), session_pb2.OrchestratorFrame(assign_task=late.assign_task), sequence=2)
    )
    await peer.send(late, peer.stamped(ref, cancel, sequence=3))
    for expected in ("1", "2"):
        error = status.from_failure((await peer.receive("failure")).failure)
        assert isinstance(error, errors.SequenceGap)
        assert error.metadata["expected"] == expected
    await peer.send(peer.stamped(ref, cancel, sequence=2))
    assert (await peer.result(ref)).state == S.TASK_STATE_CANCELED


@pytest.mark.parametrize(
    ("reason", "remaining", "over"),
    [("the run is cancelled", 60.0, True), (SUPERSEDED, 60.0, False), ("", 0.05, True), ("drain", 60.0, False)],
    ids=["cancelled", "superseded", "out of time", "drained"],
)
async def test_a_stopped_handler_knows_whether_another_attempt_goes_on(
    serve: Serve, dial: Dial, reason: str, remaining: float, over: bool
) -> None:
    seen: list[bool] = []
    began = asyncio.Event()

    async def wait(task: TaskContext) -> str:
        assert not task.is_over
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            seen.append(task.is_over)
        return ""

    agent = await serve(wait)
    peer = await dial(agent)
    ref = peer.ref("one")
    await peer.assign(ref, "x", remaining=remaining)
    await began.wait()
    if reason == "drain":
        await agent.stop(0.0)
    elif reason:
        cancel = session_pb2.CancelTask(reason=reason)
        await peer.send(peer.stamped(ref, session_pb2.OrchestratorFrame(cancel_task=cancel)))
    await until(lambda: bool(seen))
    assert seen == [over]


async def test_usage_of_another_system_is_added_to_that_of_calls(serve: Serve, dial: Dial) -> None:
    async def spend(task: TaskContext) -> str:
        task.record_model_call("m", {}, {}, started=time.time(), seconds=0.0, usage=Usage(input_tokens=1))
        task.add_usage(Usage(input_tokens=10, output_tokens=5, model_calls=3, tool_calls=2, cost_micro_usd=7))
        return "done"

    peer = await dial(await serve(spend))
    await peer.assign(peer.ref("one"))
    usage = Usage.from_proto((await peer.result(peer.ref("one"))).usage)
    assert usage == Usage(input_tokens=11, output_tokens=5, model_calls=4, tool_calls=2, cost_micro_usd=7)
