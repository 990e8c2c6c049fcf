"""Delegations by a member over bare stubs: invalid frames, the resume of a second attempt, oversized answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from archon.agent import AgentServer, TaskContext
from archon.api.agent.v1 import agent_pb2, session_pb2
from archon.api.common.v1 import common_pb2, failure_pb2
from archon.client import RunHandle, answer_text
from archon.types import TaskState
from tests.fixtures.bare_agent import BareAgent, Frame, Replies
from tests.fixtures.mesh import Mesh
from tests.fixtures.waiting import eventually
from tests.integration.services.orchestrator.test_strangers import completed, run_role
from tests.integration.services.orchestrator.troupe import Troupe, durable, of

AgentFrame = session_pb2.AgentFrame
FEATURES = ("cancel", "delegate", "record")


def delegate(frame: Frame, name: str = "d1", text: str = "x", **more: Any) -> AgentFrame:
    """Returns a delegation by the task of a frame."""
    delegation = session_pb2.Delegate(delegation_id=name, input=[common_pb2.Part(text=text)], **more)
    return AgentFrame(task=frame.task, delegate=delegation)


def lead(*delegations: Callable[[Frame], AgentFrame], answers: int = 1) -> Callable[[Frame], Replies]:
    """Returns a `say` that sends these frames, and after `answers` results the task's own: their texts or reasons."""
    received: dict[str, list[str]] = {}

    def say(frame: Frame) -> Replies:
        texts = received.setdefault(frame.task.task_id, [])
        match frame.WhichOneof("frame"):
            case "assign_task":
                return [delegation(frame) for delegation in delegations]
            case "delegate_result":
                result = frame.delegate_result.result
                reason = failure_pb2.ErrorReason.Name(result.failure.reason).removeprefix("ERROR_REASON_")
                texts.append(result.output[0].text if result.output else reason)
                return [completed(frame, ", ".join(texts))] if len(texts) == answers else []
        return []

    return say


@pytest.fixture(autouse=True)
async def _unharmed(mesh: Mesh) -> AsyncIterator[None]:
    """Checks after each test that the orchestrator has logged no error, and still serves a run of another role."""
    yield
    run = (await mesh.client.submit("still there?", roles=["requirements"], wait=10)).run
    assert run.state == TaskState.COMPLETED
    assert not mesh.errors


async def test_a_member_without_sequences_delegates(mesh: Mesh) -> None:
    async with BareAgent("plain-lead", mesh.registry.address, lead(lambda f: delegate(f, role="requirements"))):
        assert await run_role(mesh, "plain-lead") == "requirements()"


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (lambda f: AgentFrame(task=f.task, delegate=session_pb2.Delegate()), "INVALID_ARGUMENT"),
        (lambda f: delegate(f, name=""), "INVALID_ARGUMENT"),
        (lambda f: delegate(f, role=""), "INVALID_ARGUMENT"),
        (lambda f: delegate(f, capability=""), "INVALID_ARGUMENT"),
        (lambda f: delegate(f, name="n" * 10_000, role="r" * 10_000), "UNKNOWN_ROLE"),
        (lambda f: delegate(f, role="requirements", budget=common_pb2.Budget(max_tokens=-1)), "INVALID_ARGUMENT"),
        (lambda f: delegate(f, role="requirements", budget=common_pb2.Budget(max_depth=-1)), "INVALID_ARGUMENT"),
    ],
    ids=["nothing", "no id", "empty role", "empty capability", "huge names", "negative tokens", "negative depth"],
)
async def test_an_invalid_delegation_is_refused_and_the_session_lives(
    mesh: Mesh, frame: Callable[[Frame], AgentFrame], reason: str
) -> None:
    async with BareAgent("odd-lead", mesh.registry.address, lead(frame)) as agent:
        assert await run_role(mesh, "odd-lead") == reason
        assert agent.streams == 1


async def test_a_delegation_without_input_or_time_is_answered(mesh: Mesh) -> None:
    bare = lambda f: AgentFrame(task=f.task, delegate=session_pb2.Delegate(delegation_id="d", role="requirements"))  # noqa: E731

    def late(frame: Frame) -> AgentFrame:
        delegation = delegate(frame, name="e", role="requirements")
        delegation.delegate.timeout.FromSeconds(-5)
        return delegation

    async with BareAgent("terse-lead", mesh.registry.address, lead(bare, late, answers=2)):
        assert set((await run_role(mesh, "terse-lead")).split(", ")) == {"requirements()", "DELEGATION_TIMEOUT"}


async def test_contract_rule_8_a_repeated_id_is_one_delegation(mesh: Mesh) -> None:
    frames = [lambda f: delegate(f, role="requirements"), lambda f: delegate(f, text="y", role="designer")]
    async with BareAgent("twice-lead", mesh.registry.address, lead(*frames, *frames)) as agent:
        handle = await _submitted(mesh, "twice-lead")
        assert answer_text(await handle.result(timeout=10)) == "requirements()"
        assert len(of(await durable(handle), "delegated")) == 1
        assert await run_role(mesh, "twice-lead") == "requirements()", "its slot is free again"
        assert agent.streams == 1


async def test_cancelling_an_unknown_delegation_changes_nothing(mesh: Mesh) -> None:
    def cancel(frame: Frame) -> AgentFrame:
        return AgentFrame(task=frame.task, cancel_delegation=session_pb2.CancelDelegation(delegation_id="unknown"))

    frames = [cancel, lambda f: delegate(f, role="requirements"), cancel]
    async with BareAgent("hasty-lead", mesh.registry.address, lead(*frames)):
        assert await run_role(mesh, "hasty-lead") == "requirements()"


async def test_a_delegation_by_an_ended_attempt_gets_a_cancel(mesh: Mesh) -> None:
    def say(frame: Frame) -> Replies:
        match frame.WhichOneof("frame"):
            case "assign_task" if frame.task.attempt == 1:
                failure = failure_pb2.Failure(reason=failure_pb2.ERROR_REASON_NOT_HELD, message="gone")
                gone = AgentFrame(task=frame.task, reject=session_pb2.Reject(failure=failure))
                return [gone, delegate(frame, role="requirements")]
            case "assign_task":
                return [completed(frame, "second")]
        return []

    async with BareAgent("late-lead", mesh.registry.address, say, features=FEATURES) as agent:
        handle = await _submitted(mesh, "late-lead")
        assert answer_text(await handle.result(timeout=10)) == "second"
        assert not of(await durable(handle), "delegated")

        async def cancelled() -> bool:
            return any(frame.WhichOneof("frame") == "cancel_task" and frame.task.attempt == 1 for frame in agent.frames)

        await eventually(cancelled)


async def test_contract_rule_8_a_second_attempt_resumes_delegations(
    mesh: Mesh,
) -> None:
    assigned: list[agent_pb2.AssignTask] = []
    results: list[session_pb2.DelegateResult] = []

    def say(frame: Frame) -> Replies:
        match frame.WhichOneof("frame"):
            case "assign_task":
                assigned.append(frame.assign_task)
                named = delegate(frame, role="requirements", memo_key="ask", checkpoint=b"half way")
                return [named] if len(assigned) == 1 else [delegate(frame, text="z", role="absent", memo_key="ask")]
            case "delegate_result":
                results.append(frame.delegate_result)
                if len(results) == 1:
                    failure = failure_pb2.Failure(reason=failure_pb2.ERROR_REASON_NOT_HELD, message="gone")
                    return [AgentFrame(task=frame.task, reject=session_pb2.Reject(failure=failure))]
                return [completed(frame, frame.delegate_result.result.output[0].text)]
        return []

    async with BareAgent("forgetful", mesh.registry.address, say, features=FEATURES):
        handle = await _submitted(mesh, "forgetful")
        run = await handle.result(timeout=10)
    assert answer_text(run) == "requirements()"
    assert [(task.role, task.attempt) for task in run.tasks] == [("forgetful", 2), ("requirements", 1)]
    assert [result.memoized for result in results] == [False, True]
    assert results[0].result == results[1].result
    assert not assigned[0].HasField("resume")
    resume = assigned[1].resume
    assert resume.checkpoint == b"half way"
    (known,) = resume.delegations
    assert (known.memo_key, known.input[0].text, known.state) == ("ask", "x", common_pb2.TASK_STATE_COMPLETED)
    assert known.result == results[0].result


async def test_an_answer_too_large_for_its_parent_fails_the_delegation(mesh: Mesh, troupe: Troupe) -> None:
    async def novelist(task: TaskContext) -> str:
        return "x" * 300_000

    await troupe("novelist", novelist)
    say = lead(lambda f: delegate(f, role="novelist"))
    async with BareAgent("small-lead", mesh.registry.address, say, max_message_bytes=256 * 1024):
        handle = await _submitted(mesh, "small-lead")
        run = await handle.result(timeout=10)
        assert answer_text(run) == "FRAME_TOO_LARGE"
        assert run.tasks[1].state == TaskState.COMPLETED


async def test_contract_rule_2_waiting_tasks_free_max_waiting_slots(mesh: Mesh, troupe: Troupe) -> None:
    release = asyncio.Event()

    async def slow(task: TaskContext) -> str:
        await release.wait()
        return "slow"

    await troupe("slow", slow)
    say = lead(lambda f: delegate(f, role="slow"))
    async with BareAgent("queue", mesh.registry.address, say, max_waiting=2) as agent:
        handles = [await _submitted(mesh, "queue") for _ in range(5)]

        async def three() -> bool:
            runs = [await mesh.client.get(handle.run_id) for handle in handles]
            return sum("the answer of slow" in run.tasks[0].waiting_for for run in runs) == 3

        await eventually(three)  # two tasks wait beside the only slot
        await mesh.advance(1.0)
        assert await three()
        release.set()
        assert {answer_text(await handle.result(timeout=10)) for handle in handles} == {"slow"}
        assert len([frame for frame in agent.frames if frame.WhichOneof("frame") == "assign_task"]) == 5


async def test_contract_rule_2_a_draining_agent_receives_answers(mesh: Mesh, troupe: Troupe) -> None:
    begun, release = asyncio.Event(), asyncio.Event()

    async def slow(task: TaskContext) -> str:
        begun.set()
        await release.wait()
        return "slow"

    async def chef(task: TaskContext) -> str:
        return (await task.delegate("x", role="slow")).text

    await troupe("slow", slow)
    agent: AgentServer = await troupe("chef", chef)
    handle = await mesh.client.submit("x", roles=["chef"])
    async with asyncio.timeout(10):
        await begun.wait()
    stopping = asyncio.create_task(agent.stop(5.0))
    await mesh.seen(agent.address, gone=True)
    release.set()
    run = await handle.result(timeout=10)
    await stopping
    assert answer_text(run) == "slow"
    assert run.tasks[0].attempt == 1


async def _submitted(mesh: Mesh, role: str) -> RunHandle:
    async def known() -> bool:
        return bool([instance for instance in await mesh.directory.list_instances() if instance.role == role])

    await eventually(known)
    return await mesh.client.submit("x", roles=[role])
