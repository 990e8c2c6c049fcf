"""Stateful roles on real processes: every attempt receives the session's turns once and in order, even if turns race,
an orchestrator dies, or a result is too large to store. Line 17 of docs/durability.md."""

from __future__ import annotations

import asyncio
import uuid
from contextlib import AsyncExitStack

import pytest

from archon.agent import Answer, HistoryMessage, TaskContext
from archon.client import Client, answer_text
from archon.errors import ArchonError
from archon.types import Part, TaskState
from tests.fixtures.mesh import Mesh
from tests.fixtures.replicas import Replicas
from tests.fixtures.waiting import eventually, hold
from tests.integration.services.orchestrator.troupe import Troupe, durable, of

COMPLETED = TaskState.COMPLETED


@pytest.fixture
def session() -> str:
    return uuid.uuid4().hex


async def clerk(task: TaskContext) -> str:
    """Answers with the version of its history, and with all inputs of the session."""
    inputs = [message.text for message in task.history if message.role == "user"]
    return f"{task.conversation_version}: {' '.join([*inputs, task.text])}"


async def say(client: Client, session: str, text: str, role: str = "clerk", wait: float = 20.0) -> str:
    run = (await client.submit(text, roles=[role], strategy="agent", session_id=session, wait=wait)).run
    assert run is not None and run.state == COMPLETED, run
    return answer_text(run)


async def test_durability_17_a_new_instance_receives_the_history(mesh: Mesh, troupe: Troupe, session: str) -> None:
    first = await troupe("clerk", clerk, stateful=True)
    assert await say(mesh.client, session, "one") == "0: one"
    assert await say(mesh.client, session, "two") == "1: one two"
    await first.stop(0.0)
    await troupe("clerk", clerk, stateful=True)
    assert await say(mesh.client, session, "three") == "2: one two three"
    assert await say(mesh.client, uuid.uuid4().hex, "one") == "0: one", "another session"
    assert await say(mesh.client, "", "alone") == "0: alone", "without a session there is no history"
    assert await say(mesh.client, "", "alone") == "0: alone"


async def test_history_survives_a_restart_of_the_orchestrator(mesh: Mesh, troupe: Troupe, session: str) -> None:
    await troupe("notary", clerk, stateful=True)
    assert await say(mesh.client, session, "one", "notary") == "0: one"
    await mesh.orchestrator.kill()
    await mesh.orchestrator.start()
    assert await say(mesh.client, session, "two", "notary") == "1: one two"


async def test_a_role_that_is_not_stateful_receives_no_history(mesh: Mesh, troupe: Troupe, session: str) -> None:
    async def forgetful(task: TaskContext) -> Answer:
        assert not task.remembers
        return Answer(f"{len(task.history)}", new_history=[HistoryMessage("user", "kept?")])

    await troupe("forgetful", forgetful)
    for _ in range(2):
        assert await say(mesh.client, session, "x", "forgetful") == "0"


async def test_an_agents_own_turn_keeps_parts_and_metadata(mesh: Mesh, troupe: Troupe, session: str) -> None:
    histories: list[list[HistoryMessage]] = []

    async def archivist(task: TaskContext) -> Answer:
        histories.append(task.history)
        picture = Part(raw=b"\x00\x01", media_type="image/png")
        message = HistoryMessage("tool", "found", (picture,), {"dev.archon.test/key": "v"})
        return Answer("done", new_history=[message])

    await troupe("archivist", archivist, stateful=True)
    for _ in range(2):
        await say(mesh.client, session, "x", "archivist")
    assert histories[0] == []
    (message,) = histories[1]
    assert (message.role, message.text, dict(message.metadata)) == ("tool", "found", {"dev.archon.test/key": "v"})
    assert message.parts[0].raw == b"\x00\x01"


async def test_durability_17_concurrent_runs_of_a_session_take_turns(mesh: Mesh, troupe: Troupe, session: str) -> None:
    attempts: list[int] = []

    async def slow(task: TaskContext) -> str:
        attempts.append(task.attempt)
        await hold(0.05)
        return await clerk(task)

    await troupe("slow", slow, stateful=True)
    answers = await asyncio.gather(*(say(mesh.client, session, f"t{n}", "slow") for n in range(8)))
    assert sorted(answer.partition(":")[0] for answer in answers) == [str(n) for n in range(8)]
    assert attempts == [1] * 8
    last = max(answers, key=len)
    assert sorted(last.split()[1:]) == [f"t{n}" for n in range(8)]


async def test_durability_17_a_second_turn_is_retried_with_the_first(replicas: Replicas, session: str) -> None:
    """Two orchestrators do not wait for each other; the journal refuses the second turn."""
    async with AsyncExitStack() as stack:
        troupe = Troupe(replicas, stack)
        began = asyncio.Event()
        attempts: list[tuple[str, int, int]] = []

        async def racing(task: TaskContext) -> str:
            attempts.append((task.text, task.attempt, task.conversation_version))
            if len(attempts) == 2:
                began.set()
            await asyncio.wait_for(began.wait(), 10)
            return await clerk(task)

        agent = await troupe("clerk", racing, stateful=True, max_tasks=8)
        await eventually(lambda: _sessions(agent, 2))
        a, b = await asyncio.gather(
            say(replicas.client, session, "left"),
            say(replicas.other, session, "right"),
        )
        assert sorted((a, b), key=len)[1] in ("1: left right", "1: right left")
        assert sorted((a, b), key=len)[0] in ("0: left", "0: right")
        assert [(attempt, version) for _, attempt, version in attempts[:2]] == [(1, 0), (1, 0)]
        assert attempts[2][1:] == (2, 1) and len(attempts) == 3
        runs = [await replicas.client.get(run.run_id) for run in await replicas.client.list_runs(session_id=session)]
        (loser,) = (run for run in runs if answer_text(run).startswith("1:"))
        events = [event.proto async for event in replicas.client.watch(loser.run_id) if event.seq]
        (retried,) = of(events, "retry")
        assert retried.retry.failure.metadata["session_id"] == session
        versions = [event.dispatched.conversation_version for event in of(events, "dispatched")]
        assert versions == [0, 1]
        assert [event.result.remembered for event in of(events, "result")] == [True]


async def _sessions(agent: object, count: int) -> bool:
    return len(agent._sessions) >= count  # type: ignore[attr-defined]


@pytest.mark.slow
async def test_a_takeover_between_two_turns_loses_none_of_them(replicas: Replicas, session: str) -> None:
    async with AsyncExitStack() as stack:
        troupe = Troupe(replicas, stack)
        go, begun = asyncio.Event(), asyncio.Event()

        async def waiting(task: TaskContext) -> str:
            if task.text == "wait":
                begun.set()
                await go.wait()
            return await clerk(task)

        await troupe("clerk", waiting, stateful=True)
        assert await say(replicas.client, session, "one") == "0: one"
        handle = await replicas.client.submit("wait", roles=["clerk"], strategy="agent", session_id=session)
        await asyncio.wait_for(begun.wait(), 10)
        await replicas.orchestrator.kill()
        await hold(0.5)
        go.set()

        async def ended() -> bool:
            try:
                return (await replicas.other.get(handle.run_id)).state == COMPLETED
            except ArchonError:
                return False

        await eventually(ended, 20.0)
        assert answer_text(await replicas.other.get(handle.run_id)) == "1: one wait"
        assert await say(replicas.other, session, "three") == "2: one wait three"


async def test_a_delegated_stateful_role_receives_its_history(mesh: Mesh, troupe: Troupe, session: str) -> None:
    async def lead(task: TaskContext) -> str:
        answers = await asyncio.gather(*(task.delegate(f"d{n}", role="helper") for n in range(3)))
        return " | ".join(sorted(answer.text for answer in answers))

    await troupe("helper", clerk, stateful=True)
    await troupe("lead", lead, coordinator=True)
    answers = await say(mesh.client, session, "x", "lead")
    assert [answer.partition(":")[0] for answer in answers.split(" | ")] == ["0", "1", "2"]
    assert (await say(mesh.client, session, "again", "helper")).startswith("3: ")


async def test_a_turn_that_is_too_long_to_remember_is_a_typed_failure(mesh: Mesh, troupe: Troupe, session: str) -> None:
    async def talker(task: TaskContext) -> Answer | str:
        if task.text == "long":
            return "x" * 2_000_000
        return Answer("", new_history=[HistoryMessage("assistant", "x" * 600_000)])

    await troupe("talker", talker, stateful=True)
    assert len(await say(mesh.client, session, "long", "talker")) == 2_000_000, "only its turn is shortened"
    handle = await mesh.client.submit("own", roles=["talker"], strategy="agent", session_id=session, wait=20)
    assert handle.run is not None and "600," in handle.run.proto.failure.message
    assert handle.run.state == TaskState.FAILED
    events = await durable(handle)
    assert of(events, "dispatched")[0].dispatched.conversation_version == 1
