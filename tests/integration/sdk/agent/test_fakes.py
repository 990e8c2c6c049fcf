"""The scripted agent, as users' tests call it."""

from __future__ import annotations

import asyncio

import pytest

from archon import errors
from archon.agent import Answer, Question, TaskContext
from archon.testing import Delayed, FakeAgent, FakeOrchestrator, Reply
from archon.types import Message, MessageType, Part, TaskRef, Usage
from archon.types.task_state import TaskState


async def ask(peer: FakeOrchestrator, name: str, text: str = "") -> tuple[TaskState, str]:
    ref = peer.ref(name)
    await peer.assign(ref, text)
    result = await peer.result(ref)
    return result.state, result.text if result.error is None else type(result.error).__name__


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
            assert result.state is TaskState.INPUT_REQUIRED
            assert result.question == Question(prompt, input_id="q1")
        assert await ask(peer, "three") == (TaskState.COMPLETED, "yes")


async def test_a_task_beyond_the_script_fails_with_a_reason() -> None:
    async with FakeAgent("translator") as agent, FakeOrchestrator(agent.address) as peer:
        await peer.open(agent.instance_id)
        ref = peer.ref("one")
        await peer.assign(ref)
        result = await peer.result(ref)
    assert result.state is TaskState.FAILED
    assert isinstance(result.error, errors.FailedPrecondition)
    assert result.error.reason == "SCRIPT_EXHAUSTED"


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
            await peer.result(peer.ref("one"))


async def test_a_task_of_parts_is_answered_with_parts_and_usage() -> None:
    given = [Part(text="look"), Part(raw=b"\x89", media_type="image/png")]

    async def look(task: TaskContext) -> Answer:
        assert task.remaining() is not None
        assert [(item.role, item.text, item.parts) for item in task.context] == [
            ("cook", "Soup.", (Part(text="Soup."),))
        ]
        task.write("seen ")
        task.write("it")
        return Answer(parts=task.parts, usage=Usage(input_tokens=3), metadata={"org.example/a": "b"})

    async with FakeAgent("eye", [look], max_tasks=3) as agent, FakeOrchestrator(agent.address) as peer:
        assert await peer.open() == 3
        ref = peer.ref("one")
        assert ref == TaskRef("one", "run-1", 1, 1)
        await peer.assign(ref, given, context=[("cook", "Soup.")], remaining=5.0)
        result = await peer.result(ref)
        assert (result.parts, result.text, result.usage.input_tokens) == (tuple(given), "look", 3)
        assert (result.metadata, result.error, result.question) == ({"org.example/a": "b"}, None, None)
        assert peer.written(ref) == "seen it"


async def test_questions_and_delegations_of_a_handler_are_answered() -> None:
    async def chef(task: TaskContext) -> str:
        colour = await task.ask_question(Question("which?", parts=[Part(url="https://example.org/")], is_approval=True))
        soup = await task.delegate([Part(text="soup")], role="cook")
        try:
            await task.delegate("salad", capability="cold")
        except errors.NotFound as error:
            return f"{colour.decision} {colour.text} {colour.identity} {soup.text} {soup.parts[0].text} {error.message}"
        return ""

    async with FakeAgent("chef", [chef]) as agent, FakeOrchestrator(agent.address) as peer:
        await peer.open()
        ref = peer.ref("one")
        await peer.assign(ref, "lunch")
        question = await peer.question(ref)
        assert (question.text, question.parts, question.is_approval) == (
            "which?",
            (Part(url="https://example.org/"),),
            True,
        )
        await peer.answer(ref, question.input_id, "red", decision="approve", identity="ann")
        soup = await peer.delegation(ref)
        assert (soup.role, soup.capability, soup.text, soup.parts) == ("cook", "", "soup", (Part(text="soup"),))
        await peer.complete(ref, soup.delegation_id, "Soup.")
        salad = await peer.delegation(ref)
        assert (salad.role, salad.capability) == ("", "cold")
        await peer.complete(ref, salad.delegation_id, errors.NotFound("no salad"))
        assert (await peer.result(ref)).text == "approve red ann Soup. Soup. no salad"


async def test_a_cancelled_task_ends_as_cancelled() -> None:
    began = asyncio.Event()

    async def forever(task: TaskContext) -> None:
        began.set()
        await asyncio.Event().wait()

    async with FakeAgent("sloth", [forever]) as agent, FakeOrchestrator(agent.address) as peer:
        await peer.open()
        await peer.assign(peer.ref("one"), "x")
        await began.wait()
        await peer.cancel(peer.ref("one"))
        assert (await peer.result(peer.ref("one"))).state is TaskState.CANCELED


async def test_a_fake_orchestrator_exchanges_messages_with_a_handler() -> None:
    async def work(task: TaskContext) -> str:
        await task.send("hello", "other")
        try:
            await task.send({"error": "x"}, "other", type="error")
        except errors.NoReceiver as error:
            refused = error.message
        async for message in task.messages("broadcast"):
            return f"{refused}; {message.sender_id}: {message.text}"
        return ""

    async with FakeAgent("worker", [work]) as agent, FakeOrchestrator(agent.address) as peer:
        await peer.open()
        task = peer.ref("one")
        await peer.assign(task, "go")
        sent = await peer.sent(task)
        assert (sent.receiver_id, sent.content, sent.message_type) == ("other", "hello", MessageType.NOTIFICATION)
        await peer.sent(task, refuse=errors.NoReceiver("no one is there"))
        assert await peer.topics(task) == ("broadcast",)
        await peer.deliver(task, Message("boss", content="stop"))
        result = await peer.result(task)
        assert result.text == "no one is there; boss: stop"
        assert result.proto.messages_read == 2
