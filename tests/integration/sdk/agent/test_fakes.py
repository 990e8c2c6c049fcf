"""The scripted agent, as users' tests call it."""

from __future__ import annotations

import pytest

from archon import errors, status
from archon.agent import Answer, Question
from archon.api.common.v1 import common_pb2
from archon.testing import Delayed, FakeAgent, FakeOrchestrator, Reply


async def ask(peer: FakeOrchestrator, name: str, text: str = "") -> tuple[int, str]:
    ref = peer.ref(name)
    await peer.assign(ref, text)
    result = await peer.result(ref)
    if result.HasField("failure"):
        return result.state, type(status.from_failure(result.failure)).__name__
    return result.state, result.output[0].text


async def test_replies_come_in_order_and_tasks_are_recorded() -> None:
    async def shout(task: object) -> str:
        return "shouted"

    replies: list[Reply] = [
        "plain",
        Answer("whole"),
        errors.NotFound("no such word"),
        Delayed(0.01, "late"),
        lambda task: task.text.upper(),
        shout,
    ]
    async with FakeAgent("translator", replies) as agent, FakeOrchestrator(agent.address) as peer:
        await peer.open(agent.instance_id)
        results = [await ask(peer, str(number), "word") for number in range(6)]
        assert [text for _, text in results] == ["plain", "whole", "NotFound", "late", "WORD", "shouted"]
        assert [task.task_id for task in agent.tasks] == list("012345")
        assert agent.unused == ()


async def test_a_script_may_ask_a_person_at_once_or_late() -> None:
    replies: list[Reply] = [Question("go on?"), Delayed(0.01, Question("sure?")), "yes"]
    async with FakeAgent("asker", replies) as agent, FakeOrchestrator(agent.address) as peer:
        await peer.open(agent.instance_id)
        for name, prompt in (("one", "go on?"), ("two", "sure?")):
            await peer.assign(peer.ref(name))
            result = await peer.result(peer.ref(name))
            assert result.state == common_pb2.TASK_STATE_INPUT_REQUIRED
            assert result.input_request.prompt[0].text == prompt
        assert await ask(peer, "three") == (common_pb2.TASK_STATE_COMPLETED, "yes")


async def test_a_task_beyond_the_script_fails_with_a_reason() -> None:
    async with FakeAgent("translator") as agent, FakeOrchestrator(agent.address) as peer:
        await peer.open(agent.instance_id)
        ref = peer.ref("one")
        await peer.assign(ref)
        result = await peer.result(ref)
    error = status.from_failure(result.failure)
    assert result.state == common_pb2.TASK_STATE_FAILED
    assert (type(error), error.reason) == (errors.FailedPrecondition, "SCRIPT_EXHAUSTED")


async def test_replies_that_were_never_used_are_named_at_the_end() -> None:
    with pytest.raises(AssertionError, match=r"2 replies of translator .*'salut'; NotFound\('gone'\)"):
        async with FakeAgent("translator", ["salut", errors.NotFound("gone")]):
            pass


async def test_a_failure_in_the_block_is_not_hidden_by_unused_replies() -> None:
    with pytest.raises(KeyError):
        async with FakeAgent("translator", ["salut"]):
            raise KeyError("the test's own")


async def test_a_missing_frame_raises_with_the_received_frames() -> None:
    async with FakeAgent("translator") as agent, FakeOrchestrator(agent.address, timeout=0.2) as peer:
        await peer.open(agent.instance_id)
        with pytest.raises(AssertionError, match=r"no frame 'result' came; there were \['ready'\]"):
            await peer.receive("result")
