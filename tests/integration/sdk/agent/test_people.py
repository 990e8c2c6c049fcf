"""Questions to people and checkpoints on the agent's side (rule C7), frame by frame."""

from __future__ import annotations

import asyncio
import threading

import pytest

from archon import errors, status
from archon.agent import AgentServer, Question, TaskContext
from archon.agent.attempt import Attempt
from archon.agent.values import MAX_CHECKPOINT
from archon.api.agent.v1 import agent_pb2, agent_service_pb2
from archon.api.common.v1 import common_pb2
from archon.testing.frame_orchestrator import FrameOrchestrator
from archon.types import Usage
from tests.fixtures.agents import Dial, Gate, Serve
from tests.fixtures.waiting import until
from tests.integration.sdk.agent.test_run_task import answers, run_task_request

INPUT_REQUIRED = common_pb2.TASK_STATE_INPUT_REQUIRED


def record(task: TaskContext, model: str = "m") -> None:
    usage = Usage(output_tokens=1)
    task.record_model_call(model, {}, {}, started=0.0, seconds=0.0, usage=usage)


def arms(peer: FrameOrchestrator) -> list[str]:
    """Returns the kinds of all received frames of tasks, and the data of a checkpoint in place of its kind."""
    kinds = []
    for frame in peer.frames:
        if frame.HasField("task") and (arm := frame.WhichOneof("frame")):
            kinds.append(arm if arm != "checkpoint" else frame.checkpoint.data.decode())
    return kinds


async def clerk(task: TaskContext) -> str | Question:
    record(task)
    if not task.inputs:
        return Question("which colour?", checkpoint=b"page 7")
    return f"{task.input_text} on {task.checkpoint.decode()}"


async def test_contract_rule_7_the_next_attempt_has_the_answer(serve: Serve, dial: Dial) -> None:
    first, second = await serve(clerk, max_tasks=1), await serve(clerk, max_tasks=1)
    peer = await dial(first)
    ref = peer.ref("one")
    await peer.assign(ref, "x")
    result = await peer.result(ref)
    assert (result.state, result.checkpoint, result.usage.output_tokens) == (INPUT_REQUIRED, b"page 7", 1)
    assert (result.input_request.input_id, result.input_request.prompt[0].text) == ("q1", "which colour?")
    assert arms(peer) == ["record", "result"]
    await until(lambda: not first.attempts.running and len(first.attempts) == 0)  # the slot is free
    again = await dial(second)
    frame = again.assignment(again.ref("one", attempt=2), "x")
    frame.assign_task.resume.checkpoint = result.checkpoint
    frame.assign_task.resume.inputs.add(text="blue")
    await again.send(frame)
    assert (await again.result(again.ref("one", attempt=2))).output[0].text == "blue on page 7"


async def test_a_question_is_kept_until_it_is_acked_like_any_result(serve: Serve, dial: Dial) -> None:
    agent = await serve(clerk)
    peer = await dial(agent)
    ref = peer.ref("one")
    await peer.assign(ref, "x")
    sent = await peer.receive("result")
    await peer.break_off()
    again = await dial(agent)
    await again.send(again.adoption(ref, last_applied=1))  # frame 1 is the record
    assert await again.receive("result") == sent
    await again.send(again.acknowledgement(ref, sent.sequence))
    await until(lambda: len(agent.attempts) == 0)


async def test_a_question_with_a_too_large_checkpoint_fails_its_task(serve: Serve, dial: Dial) -> None:
    peer = await dial(await serve(lambda task: Question("?", checkpoint=bytes(MAX_CHECKPOINT + 1))))
    await peer.assign(peer.ref("one"), "x")
    result = await peer.result(peer.ref("one"))
    assert isinstance(status.from_failure(result.failure), errors.FrameTooLarge)


async def test_checkpoints_are_sequenced_after_their_records(serve: Serve, dial: Dial) -> None:
    async def walk(task: TaskContext) -> str:
        for step in ("one", "two"):
            record(task)
            task.save(step.encode())
        record(task)
        return "done"

    peer = await dial(await serve(walk))
    ref = peer.ref("one")
    await peer.assign(ref, "x")
    await peer.receive("result")
    assert arms(peer) == ["record", "one", "record", "two", "record", "result"]
    frames = [frame for frame in peer.frames if frame.HasField("task")]
    assert [frame.sequence for frame in frames] == [1, 2, 3, 4, 5, 6]


async def test_contract_rule_5_unacked_checkpoints_are_resent(serve: Serve, dial: Dial, gate: Gate) -> None:
    async def walk(task: TaskContext) -> str:
        task.save(b"one")
        task.save(b"two")
        await gate.handle(task)
        task.save(b"three")  # without a stream the checkpoint is queued
        gate.begun.clear()
        gate.open.clear()
        return await gate.handle(task)

    agent = await serve(walk)
    peer = await dial(agent)
    ref = peer.ref("one")
    await peer.assign(ref, "x")
    await peer.receive("checkpoint")
    await peer.send(peer.acknowledgement(ref, 1))
    second = await peer.receive("checkpoint")
    await peer.break_off()
    (attempt,) = agent.attempts
    await until(lambda: attempt.session is None)
    gate.open.set()
    await until(lambda: gate.calls == 2)
    again = await dial(agent)
    await again.send(again.adoption(ref, last_applied=1))
    await again.receive("adopted")
    assert await again.receive("checkpoint") == second
    third = await again.receive("checkpoint")
    assert (third.checkpoint.data, third.sequence) == (b"three", 3)
    gate.open.set()
    assert (await again.receive("result")).sequence == 4


async def test_a_plain_function_saves_from_its_thread_in_order(serve: Serve, dial: Dial) -> None:
    threads = set()

    def walk(task: TaskContext) -> Question:
        threads.add(threading.get_ident())
        for number in range(20):
            task.save(str(number).encode())
        with pytest.raises(errors.FrameTooLarge):
            task.save(bytes(MAX_CHECKPOINT + 1))
        return Question("?", checkpoint=b"last")

    peer = await dial(await serve(walk))
    ref = peer.ref("one")
    await peer.assign(ref, "x")
    assert (await peer.result(ref)).checkpoint == b"last"
    assert arms(peer) == [*map(str, range(20)), "result"]
    assert threading.get_ident() not in threads


async def test_nothing_is_saved_after_the_result(serve: Serve, dial: Dial) -> None:
    saved = asyncio.Event()

    async def linger(task: TaskContext) -> str:
        async def late() -> None:
            await until(lambda: not only_attempt().working)
            task.save(b"too late")
            saved.set()

        background.append(asyncio.create_task(late()))
        return "done"

    background: list[asyncio.Task[None]] = []
    agent = await serve(linger)

    def only_attempt() -> Attempt:
        (attempt,) = agent.attempts
        return attempt

    peer = await dial(agent)
    ref = peer.ref("one")
    await peer.assign(ref, "x")
    await peer.receive("result", ref)
    async with asyncio.timeout(5):
        await saved.wait()
    await peer.send(peer.adoption(ref))
    assert (await peer.receive("result", ref)).sequence == 1
    assert arms(peer) == ["result", "result"]


async def opened_without(agent: AgentServer, peer: FrameOrchestrator, feature: str) -> None:
    opening = peer.opening(agent.instance_id)
    opening.open.features[:] = [offered for offered in opening.open.features if offered != feature]
    await peer.send(opening)
    await peer.receive("ready")


async def test_contract_rule_11_checkpoints_are_sent_only_if_agreed(serve: Serve) -> None:
    async def walk(task: TaskContext) -> Question:
        record(task)
        task.save(b"not sent")
        return Question("?", checkpoint=b"with the question")

    agent = await serve(walk)
    async with FrameOrchestrator(agent.address) as peer:
        await opened_without(agent, peer, "checkpoint")
        ref = peer.ref("one")
        await peer.assign(ref, "x")
        assert (await peer.result(ref)).checkpoint == b"with the question"
        assert arms(peer) == ["record", "result"]


async def test_contract_rule_11_without_features_only_a_question_goes(serve: Serve) -> None:
    async def walk(task: TaskContext) -> Question:
        record(task)
        task.save(b"not sent")
        return Question("?")

    agent = await serve(walk)
    async with FrameOrchestrator(agent.address) as peer:
        opening = peer.opening(agent.instance_id)
        opening.open.ClearField("features")
        await peer.send(opening)
        await peer.receive("ready")
        await peer.assign(peer.ref("one"), "x")
        result = await peer.receive("result")
        assert (result.sequence, result.result.state) == (1, INPUT_REQUIRED)
        assert [frame.WhichOneof("frame") for frame in peer.frames] == ["ready", "result"]


async def test_describe_lists_checkpoints_before_and_after_a_question(serve: Serve, dial: Dial) -> None:
    agent = await serve(clerk)
    peer = await dial(agent)
    before = await peer.stub.Describe(agent_service_pb2.DescribeRequest(), timeout=5.0)
    await peer.assign(peer.ref("one"), "x")
    await peer.result(peer.ref("one"))
    assert "checkpoint" in before.features
    assert await peer.stub.Describe(agent_service_pb2.DescribeRequest(), timeout=5.0) == before


async def test_a_question_of_run_task_is_answered_in_a_new_call(serve: Serve) -> None:
    async def walk(task: TaskContext) -> str | Question:
        task.save(b"not kept")
        return await clerk(task)

    agent = await serve(walk)
    (response,) = await answers(agent, run_task_request("x"))
    result = response.result
    assert (result.state, result.input_request.input_id, result.checkpoint) == (INPUT_REQUIRED, "q1", b"page 7")
    request = run_task_request("x")
    request.task.resume.MergeFrom(agent_pb2.Resume(checkpoint=result.checkpoint, inputs=[common_pb2.Part(text="blue")]))
    (response,) = await answers(agent, request)
    assert response.result.output[0].text == "blue on page 7"
    assert len(agent.attempts) == 0


async def test_a_checkpoint_above_the_peers_limit_is_refused_at_save(serve: Serve, dial: Dial) -> None:
    async def from_the_loop(task: TaskContext) -> str:
        with pytest.raises(errors.FrameTooLarge, match="135,000"):
            task.save(bytes(134_970))
        task.save(bytes(134_000))
        return "goes on"

    def from_a_thread(task: TaskContext) -> str:
        with pytest.raises(errors.FrameTooLarge, match="135,000"):
            task.save(bytes(500_000))
        return "goes on"

    for handler in (from_the_loop, from_a_thread):
        peer = await dial(await serve(handler), max_message_bytes=135_000)
        ref = peer.ref("one")
        await peer.assign(ref, "x")
        assert (await peer.result(ref)).output[0].text == "goes on"
        assert max(frame.ByteSize() for frame in peer.frames) <= 135_000


async def test_of_unacked_checkpoints_only_the_last_waits_for_room(
    serve: Serve, dial: Dial, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("archon.agent.attempt.MAX_UNACKED", 10_000)

    async def hurry(task: TaskContext) -> str:
        for number in range(100):
            task.save(str(number).encode().rjust(4_000))
        return await gate.handle(task)

    agent = await serve(hurry)
    peer = await dial(agent)
    ref = peer.ref("one")
    await peer.assign(ref, "x")
    await gate.reached()
    for number in range(3):
        assert (await peer.receive("checkpoint")).checkpoint.data.strip() == str(number).encode()
    (attempt,) = agent.attempts
    assert attempt.channel.pending_bytes < 15_000
    await peer.send(peer.acknowledgement(ref, 2))
    last = await peer.receive("checkpoint")
    assert (last.checkpoint.data.strip(), last.sequence) == (b"99", 4)
    gate.open.set()
    assert (await peer.receive("result")).sequence == 5
    assert sum(frame.HasField("checkpoint") for frame in peer.frames) == 4


@pytest.mark.parametrize("then", ["a question", "a delegation", "a new stream"])
async def test_a_checkpoint_held_back_precedes_dependent_frames(
    serve: Serve, dial: Dial, gate: Gate, monkeypatch: pytest.MonkeyPatch, then: str
) -> None:
    monkeypatch.setattr("archon.agent.attempt.MAX_UNACKED", 1)

    async def hurry(task: TaskContext) -> Question:
        task.save(b"one")
        task.save(b"two")
        record(task)
        task.save(b"three")
        if then == "a delegation":
            await task.delegate("x", role="cook")
        if then == "a new stream":
            await gate.handle(task)
        return Question("?")

    agent = await serve(hurry)
    peer = await dial(agent)
    ref = peer.ref("one")
    await peer.assign(ref, "x")
    if then == "a new stream":
        await gate.reached()
        await peer.break_off()
        peer = await dial(agent)
        await peer.send(peer.adoption(ref, last_applied=2))
        assert (await peer.receive("checkpoint")).sequence == 3
        assert arms(peer) == ["adopted", "three"]
        return
    await peer.receive("delegate" if then == "a delegation" else "result")
    assert arms(peer) == ["one", "record", "three", "delegate" if then == "a delegation" else "result"]
    assert [frame.sequence for frame in peer.frames if frame.HasField("task")] == [1, 2, 3, 4]
