"""Sequenced frames survive losses, and messages are split into frames without decoding them."""

from __future__ import annotations

import asyncio

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from archon.api.agent.v1 import agent_pb2, agent_service_pb2, session_pb2
from archon.api.common.v1 import common_pb2
from archon.errors import FrameTooLarge
from archon.frames import (
    ACK_WAIT,
    HOLD,
    SOFT_BATCH_BYTES,
    Channel,
    FrameQueue,
    OutgoingFrame,
    Verdict,
    agent_content,
    encode,
    orchestrator_content,
    split,
    task_of,
)
from tests.fixtures.virtual_time import in_virtual_time, pass_time

REF = common_pb2.TaskRef(task_id="t", run_id="r", attempt=1, epoch=1)


def record(number: int, size: int = 0) -> session_pb2.AgentFrame:
    return session_pb2.AgentFrame(record=agent_pb2.CallRecord(target=str(number), request_json="x" * size))


def delta(text: str = "x") -> session_pb2.AgentFrame:
    return session_pb2.AgentFrame(progress=agent_pb2.Progress(text=text))


def up(data: OutgoingFrame | bytes) -> list[session_pb2.AgentFrame]:
    """Decodes the frames of a message to an orchestrator."""
    message = data if isinstance(data, bytes) else data.head + data.content
    return list(agent_service_pb2.SessionResponse.FromString(message).frames)


def down(data: OutgoingFrame | bytes) -> list[session_pb2.OrchestratorFrame]:
    """Decodes the frames of a message to an agent."""
    message = data if isinstance(data, bytes) else data.head + data.content
    return list(agent_service_pb2.SessionRequest.FromString(message).frames)


class Receiver:
    """The receiving end: applies frames in order and counts gaps."""

    def __init__(self) -> None:
        self.channel: Channel[session_pb2.OrchestratorFrame] = Channel(REF)
        self.applied: list[str] = []
        self.gaps = 0

    def take(self, frame: session_pb2.AgentFrame) -> None:
        match self.channel.take(frame.sequence):
            case Verdict.APPLY:
                self.applied.append(frame.record.target)
            case Verdict.GAP:
                self.gaps += 1


STEPS = st.lists(st.sampled_from(["send", "lose", "arrive", "ack", "lose ack", "resend", "break"]), max_size=60)


@given(STEPS)
def test_contract_rule_5_frames_survive_loss_and_resend(steps: list[str]) -> None:
    sender: Channel[session_pb2.AgentFrame] = Channel(REF)
    receiver = Receiver()
    wire: list[session_pb2.AgentFrame] = []
    sent = 0

    def resend() -> None:
        for frame in sender.unacked(receiver.channel.applied):
            wire.extend(up(frame))

    for step in steps:
        if step == "send":
            sent += 1
            wire.extend(up(sender.stamp(record(sent))))
        elif step == "lose" and wire:
            wire.pop(0)
        elif step == "arrive" and wire:
            receiver.take(wire.pop(0))
        elif step == "ack":
            sender.acked(receiver.channel.applied)
        elif step == "resend":
            resend()
        elif step == "break":
            wire.clear()
            resend()
        assert receiver.applied == [str(number) for number in range(1, len(receiver.applied) + 1)]
        pending = [frame for unacked in sender.unacked() for frame in up(unacked)]
        assert sender.has_unacked is bool(pending)
        assert sender.pending_bytes >= sum(len(frame.record.target) for frame in pending)
        assert [frame.sequence for frame in pending] == list(range(sent - len(pending) + 1, sent + 1))
    wire.clear()
    resend()
    for frame in wire:
        receiver.take(frame)
    sender.acked(receiver.channel.applied)
    assert len(receiver.applied) == sent
    assert (sender.unacked(), sender.pending_bytes) == ([], 0)


def test_durability_18_a_frame_is_acked_once_it_is_durable() -> None:
    channel: Channel[session_pb2.OrchestratorFrame] = Channel(REF, ack_at_once=False)
    assert channel.take(1) is Verdict.APPLY
    assert down(channel.stamp(session_pb2.OrchestratorFrame()))[0].ack == 0
    channel.apply(1)
    assert down(channel.stamp(session_pb2.OrchestratorFrame()))[0].ack == 1
    assert channel.take(1) is Verdict.DUPLICATE
    assert channel.take(3) is Verdict.GAP


def test_a_channel_has_its_own_copy_of_the_reference() -> None:
    original = common_pb2.TaskRef(task_id="t", epoch=1)
    channel: Channel[session_pb2.AgentFrame] = Channel(original)
    [frame] = up(channel.stamp(record(1)))
    original.epoch = 9
    assert frame.task.epoch == 1
    channel.ref.epoch = 2
    assert up(channel.unacked()[0])[0].task.epoch == 2  # resent with the new owner's epoch


def test_contract_rule_5_a_new_owners_frames_follow_the_applied() -> None:
    channel: Channel[session_pb2.OrchestratorFrame] = Channel(REF)
    for _ in range(2):
        channel.stamp(session_pb2.OrchestratorFrame())
    channel.continue_after(5)
    assert [down(frame)[0].sequence for frame in channel.unacked()] == [6, 7]
    assert down(channel.stamp(session_pb2.OrchestratorFrame()))[0].sequence == 8
    channel.acked(8)
    assert channel.pending_bytes == 0


@given(st.lists(st.integers(0, 80_000), max_size=12))
async def test_contract_rule_10_batches_keep_order_and_the_soft_target(sizes: list[int]) -> None:
    queue = FrameQueue()
    for number, size in enumerate(sizes):
        assert queue.put(record(number, size))
    queue.close()
    assert not queue.put(record(0))
    targets = []
    while batch := await queue.batch():
        frames = up(batch)
        assert len(frames) == 1 or len(batch) <= SOFT_BATCH_BYTES
        targets += [frame.record.target for frame in frames]
    assert targets == [str(number) for number in range(len(sizes))]


async def test_contract_rule_10_only_deltas_over_the_bound_are_dropped() -> None:
    queue = FrameQueue(max_droppable=2)
    assert [queue.put(delta(), droppable=True) for _ in range(3)] == [True, True, False]
    assert queue.put(record(1))
    assert len(up(await queue.batch())) == 3
    assert queue.put(delta(), droppable=True)


async def test_a_peer_that_never_reads_loses_the_stream() -> None:
    queue = FrameQueue(max_waiting=3)
    assert [queue.put(record(n)) for n in range(4)] == [True, True, True, False]
    assert (queue.overflowed, queue.closed) == (True, True)
    assert await queue.batch() == b""


async def test_a_single_frame_leaves_at_once_and_close_wakes_writers() -> None:
    queue = FrameQueue()
    waiting = asyncio.create_task(queue.batch())
    await asyncio.sleep(0)
    queue.put(record(1))
    assert len(up(await asyncio.wait_for(waiting, 60))) == 1
    waiting = asyncio.create_task(queue.batch())
    await asyncio.sleep(0)
    queue.close()
    assert await asyncio.wait_for(waiting, 60) == b""


def of_task(number: int, size: int = 0) -> session_pb2.AgentFrame:
    frame = record(number, size)
    frame.task.task_id = f"t{number}"
    return frame


async def test_frames_of_several_tasks_share_a_message() -> None:
    queue = FrameQueue()
    queue.put(of_task(1))
    queue.put(of_task(2))
    assert len(up(await queue.batch())) == 2
    queue.put(of_task(3))
    batch = asyncio.create_task(queue.batch())
    await asyncio.sleep(0)
    queue.put(of_task(4))
    assert [frame.record.target for frame in up(await batch)] == ["3", "4"]


@pytest.mark.parametrize(("tasks", "held"), [(1, 0.0), (2, HOLD / 4), (3, HOLD * 9 / 16), (4, HOLD), (9, HOLD)])
@in_virtual_time
async def test_a_message_waits_by_the_tasks_of_the_one_before(
    tasks: int, held: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("archon.frames.time.monotonic", asyncio.get_running_loop().time)
    queue = FrameQueue()
    for number in range(tasks):
        queue.put(of_task(number))
    await queue.batch()
    began = asyncio.get_running_loop().time()
    queue.put(of_task(0))
    await queue.batch()
    assert asyncio.get_running_loop().time() - began == pytest.approx(held)


@in_virtual_time
async def test_acks_alone_are_no_reason_to_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("archon.frames.time.monotonic", asyncio.get_running_loop().time)
    queue = FrameQueue()
    for number in range(9):
        channel = Channel[session_pb2.AgentFrame](common_pb2.TaskRef(task_id=f"t{number}", run_id="r", attempt=1))
        queue.put(channel.stamp(session_pb2.AgentFrame(), sequenced=False))
    queue.put(of_task(1))
    await queue.batch()
    queue.put(of_task(2))
    await queue.batch()
    assert asyncio.get_running_loop().time() == 0.0


def ack(number: int) -> OutgoingFrame:
    channel = Channel[session_pb2.AgentFrame](common_pb2.TaskRef(task_id=f"t{number}", run_id="r", attempt=1))
    return channel.stamp(b"", sequenced=False)


@in_virtual_time
async def test_an_ack_alone_waits_a_moment_for_another_frame() -> None:
    queue = FrameQueue()
    for number in range(3):
        queue.put(ack(number))
        assert len(up(await queue.batch())) == 1
        assert asyncio.get_running_loop().time() == pytest.approx((number + 1) * ACK_WAIT)


@in_virtual_time
async def test_an_ack_leaves_with_the_next_frame() -> None:
    queue = FrameQueue()
    for number in range(3):
        queue.put(ack(number))
        batch = asyncio.create_task(queue.batch())
        await asyncio.sleep(ACK_WAIT / 2)
        assert not batch.done()
        queue.put(of_task(1))
        assert len(up(await batch)) == 2
    assert asyncio.get_running_loop().time() == pytest.approx(3 * ACK_WAIT / 2)


@in_virtual_time
async def test_acks_leave_when_the_stream_ends() -> None:
    queue = FrameQueue()
    queue.put(ack(1))
    queue.close()
    assert len(up(await queue.batch())) == 1
    assert await queue.batch() == b""
    assert asyncio.get_running_loop().time() == 0.0


@in_virtual_time
async def test_acks_that_may_not_leave_are_tried_again() -> None:
    may = [False, True]
    queue = FrameQueue(may_send=lambda: may.pop(0))
    queue.put(ack(1))
    batch = asyncio.create_task(queue.batch())
    await asyncio.sleep(2 * ACK_WAIT)
    queue.put(ack(2))
    assert len(up(await batch)) == 2


@in_virtual_time
async def test_frames_about_the_session_are_no_reason_to_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("archon.frames.time.monotonic", asyncio.get_running_loop().time)
    queue = FrameQueue()
    queue.put(session_pb2.AgentFrame(heartbeat=session_pb2.Heartbeat(counter=1)))
    queue.put(of_task(1))
    await queue.batch()
    queue.put(of_task(1))
    await queue.batch()
    assert asyncio.get_running_loop().time() == 0.0


async def test_frames_of_one_task_and_full_messages_are_not_held() -> None:
    queue = FrameQueue()
    for number in (1, 1):
        queue.put(of_task(number))
    assert len(up(await queue.batch())) == 2
    for number in (1, 2, 3):
        queue.put(of_task(number, SOFT_BATCH_BYTES // 2))
    for expected in (["1"], ["2"], ["3"]):
        step = asyncio.create_task(queue.batch())
        await asyncio.sleep(0)
        assert step.done(), "a full message must not wait for a timer"
        assert [frame.record.target for frame in up(step.result())] == expected


def test_a_frame_above_the_peers_limit_is_refused_by_size() -> None:
    channel: Channel[session_pb2.AgentFrame] = Channel(REF)
    channel.stamp(record(1, 900), limit=1_000)
    with pytest.raises(FrameTooLarge) as raised:
        channel.stamp(record(2, 1_000), limit=1_000)
    assert raised.value.metadata["limit"] == "1000"
    assert [frame.record.target for unacked in channel.unacked() for frame in up(unacked)] == ["1"]


@given(st.integers(1, 2**53), st.integers(0, 2**53), st.integers(0, 2**53), st.text(max_size=200))
def test_a_stamped_frame_equals_protobufs_bytes(epoch: int, sent: int, applied: int, text: str) -> None:
    ref = common_pb2.TaskRef(task_id="t" * 32, run_id="r", attempt=3, epoch=epoch)
    channel: Channel[session_pb2.AgentFrame] = Channel(ref)
    channel.continue_after(sent)
    channel.apply(applied)
    result = agent_pb2.TaskResult(output=[common_pb2.Part(text=text)])
    frame = channel.stamp(agent_content("result", result))
    whole = session_pb2.AgentFrame(task=ref, sequence=sent + 1, ack=applied, result=result)
    message = agent_service_pb2.SessionResponse(frames=[whole]).SerializeToString()
    assert (frame.head + frame.content, frame.size) == (message, len(message))
    assert encode(whole).head + encode(whole).content == message


@pytest.mark.parametrize("arm", [field.name for field in session_pb2.OrchestratorFrame.DESCRIPTOR.oneofs[0].fields])
def test_the_content_of_each_arm_equals_protobufs_bytes(arm: str) -> None:
    frame = session_pb2.OrchestratorFrame()
    getattr(frame, arm).SetInParent()
    assert orchestrator_content(arm, getattr(frame, arm)) == frame.SerializeToString()


@given(st.lists(st.integers(0, 300), max_size=6), st.binary(max_size=20))
def test_split_yields_frames_and_skips_unknown_fields(sizes: list[int], unknown: bytes) -> None:
    frames = [record(number, size) for number, size in enumerate(sizes)]
    message = b"\x78\x01" + b"\x7d\x00\x00\x00\x00"  # field 15 as a varint and as a fixed32, from a newer version
    for frame in frames:
        message += agent_service_pb2.SessionResponse(frames=[frame]).SerializeToString()
        message += b"\x7a" + bytes([len(unknown)]) + unknown
    assert [session_pb2.AgentFrame.FromString(raw) for raw in split(message)] == frames


@given(st.binary(max_size=60))
def test_split_ends_in_frames_or_a_decode_error_for_any_bytes(data: bytes) -> None:
    try:
        list(split(data))
    except DecodeError:
        pass
    task_of(data)


@pytest.mark.parametrize("damaged", [b"\x0a\x7fshort", b"\x0a", b"\x0d\x00", b"\x02\x00", b"\x0b", b"\xff" * 11])
def test_split_refuses_invalid_messages(damaged: bytes) -> None:
    with pytest.raises(DecodeError):
        list(split(damaged))


def test_the_task_of_a_malformed_frame_is_read_if_possible() -> None:
    frame = session_pb2.OrchestratorFrame(task=REF, cancel_task=session_pb2.CancelTask(reason="abcdef"))
    raw = frame.SerializeToString().replace(b"abcdef", b"\xff\xfe\xff\xfe\xff\xfe")
    with pytest.raises(DecodeError):
        session_pb2.OrchestratorFrame.FromString(raw)
    assert task_of(raw) == REF
    assert task_of(b"\xff") is None


@in_virtual_time
async def test_durability_11_the_lease_is_checked_when_a_batch_leaves() -> None:
    leased = True
    queue = FrameQueue(may_send=lambda: leased)
    for task_id in ("one", "two"):
        queue.put(session_pb2.OrchestratorFrame(task=common_pb2.TaskRef(task_id=task_id)))
    assert len(down(await queue.batch())) == 2  # frames of two tasks: the next frame waits for further frames
    queue.put(session_pb2.OrchestratorFrame(task=common_pb2.TaskRef(task_id="three")))
    batch = asyncio.create_task(queue.batch())
    await asyncio.sleep(0)
    leased = False  # the process was halted meanwhile
    await pass_time(60.0)
    assert not batch.done()
    batch.cancel()
