"""Messages between agents of a run in a mesh: requests, topics, refusals, a flood, and what is read after a crash."""

from __future__ import annotations

import asyncio
import time
import uuid
from typing import Any

import pytest

from archon.agent import TaskContext
from archon.client import answer_text
from archon.errors import ArchonError, DeadlineExceeded, InvalidArgument, MessageNotAllowed, NoReceiver, Unavailable
from archon.registry import Profile
from archon.types import HelpRequest, Message, MessageType, TaskState
from tests.fixtures.mesh import Mesh
from tests.fixtures.waiting import until
from tests.integration.services.orchestrator.troupe import Troupe, durable, of


def names(*roles: str) -> list[str]:
    number = uuid.uuid4().hex[:6]
    return [f"{role}-{number}" for role in roles]


async def answers(mesh: Mesh, *roles: str) -> dict[str, str]:
    """Runs roles without dependencies at the same time, and returns the answer of each."""
    handle = await mesh.client.submit("go", roles=list(roles), wait=20)
    assert handle.run.state == TaskState.COMPLETED, handle.run.failure
    return {answer.role: answer.text for answer in handle.run.answers}


async def read(task: TaskContext, count: int, *topics: str, **options: Any) -> list[Message]:
    """The first messages that a task receives."""
    found: list[Message] = []
    async for message in task.messages(*topics, **options):
        found.append(message)
        if len(found) == count:
            break
    return found


async def ready(task: TaskContext, other: str) -> None:
    """Tells another role that this task receives messages from now on."""
    task.messages()
    await task.send("ready", other)


async def test_two_agents_exchange_messages_while_they_work(mesh: Mesh, troupe: Troupe) -> None:
    writer, researcher = names("writer", "researcher")

    async def research(task: TaskContext) -> str:
        (question,) = await read(task, 1)
        assert question.sender_id == writer
        assert question.message_type is MessageType.HELP_REQUEST
        assert question.typed() == HelpRequest("how old is the bridge?")
        await task.reply(question, {"status": "success", "result": 360})
        return "done"

    async def write(task: TaskContext) -> str:
        sent = await task.send(HelpRequest("how old is the bridge?"), researcher)
        (reply,) = await read(task, 1)
        assert reply.correlation_id == sent
        return f"{reply.sender_id} says {reply.content['result']}"

    await troupe(researcher, research)
    await troupe(writer, write)
    assert (await answers(mesh, writer, researcher))[writer] == f"{researcher} says 360"


async def test_a_message_reaches_each_subscriber_once_and_in_order(mesh: Mesh, troupe: Troupe) -> None:
    speaker, one, other = names("speaker", "one", "other")

    async def speak(task: TaskContext) -> str:
        for number in range(20):
            await task.send(f"message {number}", type=MessageType.STATUS_UPDATE if number % 2 else None)
        return "done"

    async def listen(task: TaskContext) -> str:
        topics = ("broadcast",) if task.role == one else ("type:status_update",)
        found = [message.content async for message in task.messages(*topics, timeout=2)]
        return " ".join(text.split()[1] for text in found)

    for role in (one, other):
        await troupe(role, listen)
    await troupe(speaker, speak)
    heard = await answers(mesh, speaker, one, other)
    assert heard[one] == " ".join(map(str, range(20)))
    assert heard[other] == " ".join(map(str, range(1, 20, 2)))


async def test_a_request_to_a_role_that_is_not_at_work_becomes_a_task_of_its_own(mesh: Mesh, troupe: Troupe) -> None:
    writer, researcher = names("writer", "researcher")

    async def write(task: TaskContext) -> str:
        return (await task.request_help("how old is the bridge?", researcher)).text

    async def research(task: TaskContext) -> str:
        return f"answer to: {task.text}"

    await troupe(researcher, research)
    await troupe(writer, write)
    handle = await mesh.client.submit("go", roles=[writer], wait=20)
    assert answer_text(handle.run) == "answer to: how old is the bridge?"
    events = await durable(handle)
    (refused,) = of(events, "message_sent")
    assert refused.message_sent.failure.message == f"no task of the run receives messages for {researcher!r}"
    assert len(of(events, "delegated")) == 1


async def test_an_agent_answers_requests_beside_its_own_work(mesh: Mesh, troupe: Troupe) -> None:
    writer, researcher = names("writer", "researcher")
    asked = asyncio.Event()

    async def research(task: TaskContext) -> str:
        await ready(task, writer)
        await asked.wait()
        return "done"

    async def on_message(message: Message, task: TaskContext) -> str | None:
        if message.content == "fail":
            raise InvalidArgument("that is no question")
        return f"{task.role} heard {message.text}"

    async def write(task: TaskContext) -> str:
        await read(task, 1)
        try:
            first = await task.request("hello", researcher)
            second = await task.request("fail", researcher)
        finally:
            asked.set()
        return f"{first.text}; {second.message_type}: {second.content['error']}"

    await troupe(researcher, research, on_message=on_message)
    await troupe(writer, write)
    assert (await answers(mesh, researcher, writer))[writer] == f"{researcher} heard hello; error: that is no question"


async def test_messages_without_an_allowed_receiver_are_refused(mesh: Mesh, troupe: Troupe) -> None:
    writer, reader = names("writer", "reader")
    errors: list[ArchonError] = []

    async def write(task: TaskContext) -> str:
        tries: list[tuple[Any, str, Any]] = [
            ("hello", "stranger", None),
            ("hello", writer, None),
            ({"error": "x"}, reader, "error"),
            ({"status": "banana"}, reader, "task_response"),
            ("x" * 70_000, reader, None),
            (object(), reader, None),
            ("hello", reader, "gossip"),
        ]
        for content, to, kind in tries:
            try:
                await task.send(content, to, type=kind)
            except ArchonError as error:
                errors.append(error)
        return await task.send("allowed", reader)

    async def listen(task: TaskContext) -> str:
        return (await read(task, 1))[0].text

    await troupe(writer, write)
    await troupe(reader, listen, profile=Profile(message_types={"notification": writer, "task_response": ""}))
    assert (await answers(mesh, writer, reader))[reader] == "allowed"
    assert [type(error) for error in errors] == [NoReceiver, NoReceiver, MessageNotAllowed, *[InvalidArgument] * 4]
    assert str(errors[2]) == f"the profile of {reader} does not allow messages of the type error"


async def test_a_request_that_is_not_answered_ends_in_time(mesh: Mesh, troupe: Troupe) -> None:
    writer, reader = names("writer", "reader")
    over = asyncio.Event()

    async def write(task: TaskContext) -> str:
        await read(task, 1)
        try:
            await task.request("hello", reader, timeout=0.2)
        except DeadlineExceeded as error:
            return str(error)
        finally:
            over.set()
        return "answered"

    async def listen(task: TaskContext) -> str:
        await ready(task, writer)
        await over.wait()
        return "read"

    await troupe(writer, write)
    await troupe(reader, listen)
    assert (await answers(mesh, writer, reader))[writer] == "no reply came within 0.2 s"


async def test_contract_rule_13_a_second_attempt_reads_everything_again_and_sends_nothing_twice(
    mesh: Mesh, troupe: Troupe
) -> None:
    writer, reader = names("writer", "reader")
    heard: list[list[str]] = []
    failed: list[str] = []

    async def write(task: TaskContext) -> str:
        for text in ("one", "two", "two"):
            await task.send(text, reader)
        if not failed:
            failed.append(task.task_id)
            raise Unavailable("the network is away")
        await task.send("three", reader)
        return "done"

    async def listen(task: TaskContext) -> str:
        texts = [message.text for message in await read(task, 4)]
        heard.append(texts)
        if len(heard) == 1:
            raise Unavailable("the network is away")
        return " ".join(texts)

    await troupe(writer, write)
    await troupe(reader, listen)
    handle = await mesh.client.submit("go", roles=[writer, reader], wait=30)
    assert handle.run.state == TaskState.COMPLETED, handle.run.failure
    assert heard == [["one", "two", "two", "three"]] * 2
    sent = of(await durable(handle), "message_sent")
    assert [event.message_sent.first_seq > 0 for event in sent] == [False, False, False, True, True, True, False]


async def test_a_message_that_has_expired_is_not_delivered(mesh: Mesh, troupe: Troupe) -> None:
    writer, reader = names("writer", "reader")
    sent = asyncio.Event()

    async def write(task: TaskContext) -> str:
        await task.send("stale", reader, ttl=0.05)
        await task.send("fresh", reader, ttl=60)
        start = time.monotonic()
        await until(lambda: time.monotonic() > start + 0.1)
        sent.set()
        return "done"

    async def listen(task: TaskContext) -> str:
        await sent.wait()
        return (await read(task, 1))[0].text

    await troupe(writer, write)
    await troupe(reader, listen)
    assert (await answers(mesh, writer, reader))[reader] == "fresh"


async def test_an_attempt_that_floods_its_run_fails_for_good(
    mesh: Mesh, troupe: Troupe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("archon_services.orchestrator.sessions.attempts.MAX_SENT", 50)
    (writer,) = names("writer")
    cancelled = asyncio.Event()

    async def write(task: TaskContext) -> str:
        try:
            for number in range(1_000):
                await task.send(f"message {number}")
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return "done"

    await troupe(writer, write)
    handle = await mesh.client.submit("go", roles=[writer], wait=20)
    assert handle.run.state == TaskState.FAILED
    assert handle.run.failure is not None
    assert handle.run.failure.reason == "TOO_MANY_MESSAGES"
    await asyncio.wait_for(cancelled.wait(), 5)


async def test_the_result_says_which_messages_were_read(mesh: Mesh, troupe: Troupe) -> None:
    writer, reader = names("writer", "reader")

    async def write(task: TaskContext) -> str:
        for text in ("one", "two"):
            await task.send(text, reader)
        return "done"

    async def listen(task: TaskContext) -> str:
        return (await read(task, 1))[0].text

    await troupe(writer, write)
    await troupe(reader, listen)
    handle = await mesh.client.submit("go", roles=[writer, reader], wait=20)
    events = await durable(handle)
    first = of(events, "message_sent")[0]
    (result,) = of(events, "result", reader)
    assert result.result.messages_read == first.seq == first.message_sent.message.seq
