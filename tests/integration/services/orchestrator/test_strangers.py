"""The orchestrator and agents over bare stubs: the smallest member is served, and a broken member harms only itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from archon.api.agent.v1 import agent_pb2, session_pb2
from archon.api.common.v1 import common_pb2, failure_pb2
from archon.client import answer_text
from archon.types import TaskState
from tests.fixtures.bare_agent import BareAgent, Frame, Replies
from tests.fixtures.mesh import Mesh
from tests.fixtures.waiting import eventually

AgentFrame = session_pb2.AgentFrame


def completed(frame: Frame, text: str = "done", *, sequence: int = 0) -> AgentFrame:
    """Returns a completed result for the task of a frame."""
    result = agent_pb2.TaskResult(state=common_pb2.TASK_STATE_COMPLETED, output=[common_pb2.Part(text=text)])
    return AgentFrame(task=frame.task, sequence=sequence, result=result)


def on_assign(*frames: AgentFrame | bytes, sequence: int = 0) -> Callable[[Frame], Replies]:
    """Returns a `say` that answers an assignment with these frames, their task set, and then with the result."""

    def say(frame: Frame) -> Replies:
        if frame.WhichOneof("frame") != "assign_task":
            return []
        out: list[AgentFrame | bytes] = []
        for reply in frames:
            if isinstance(reply, AgentFrame) and not reply.HasField("task"):
                copy = AgentFrame()
                copy.CopyFrom(reply)
                copy.task.CopyFrom(frame.task)
                out.append(copy)
            else:
                out.append(reply)
        return [*out, completed(frame, sequence=sequence)]

    return say


def refusals(agent: BareAgent) -> list[str]:
    """Returns the reasons of the failure frames that the agent received."""
    return [
        failure_pb2.ErrorReason.Name(frame.failure.reason).removeprefix("ERROR_REASON_")
        for frame in agent.frames
        if frame.WhichOneof("frame") == "failure"
    ]


async def run_role(mesh: Mesh, role: str) -> str:
    """Submits a run of a role as soon as it is registered, and returns its answer."""

    async def known() -> bool:
        return bool([instance for instance in await mesh.directory.list_instances() if instance.role == role])

    await eventually(known)
    run = (await mesh.client.submit("x", roles=[role], wait=10)).run
    assert run.state == TaskState.COMPLETED, run.failure
    return answer_text(run)


@pytest.fixture(autouse=True)
async def _unharmed(mesh: Mesh) -> AsyncIterator[None]:
    """Checks after each test that the orchestrator has logged no error, and still serves a run of another role."""
    yield
    run = (await mesh.client.submit("still there?", roles=["requirements"], wait=10)).run
    assert run.state == TaskState.COMPLETED
    assert not mesh.errors


async def test_the_smallest_member_is_served(mesh: Mesh) -> None:
    async with BareAgent("smallest", mesh.registry.address, on_assign()) as agent:
        assert await run_role(mesh, "smallest") == "done"
        assert await run_role(mesh, "smallest") == "done", "its slot is free again"
        assert not refusals(agent)


async def test_contract_rule_10_a_malformed_frame_harms_no_other_frame(mesh: Mesh) -> None:
    broken = b"\x0a\x06\x0a\x04\x0a\x02\xff\xfe"  # a message of one frame whose task_id is not UTF-8
    async with BareAgent("garbler", mesh.registry.address, on_assign(broken)) as agent:
        assert await run_role(mesh, "garbler") == "done"
        await eventually(_refused(agent, "MALFORMED_MESSAGE"))
        assert agent.streams == 1


async def test_bytes_that_are_no_message_at_all_do_not_end_the_session(mesh: Mesh) -> None:
    async with BareAgent("noise", mesh.registry.address, on_assign(b"\xff\xff\xff\xff")) as agent:
        assert await run_role(mesh, "noise") == "done"
        await eventually(_refused(agent, "MALFORMED_MESSAGE"))
        assert agent.streams == 1


async def test_contract_rule_11_an_unknown_frame_gets_a_failure(mesh: Mesh) -> None:
    unknown = AgentFrame.FromString(b"\xa2\x06\x00")  # field 100, which no version has
    async with BareAgent("futurist", mesh.registry.address, on_assign(unknown)) as agent:
        assert await run_role(mesh, "futurist") == "done"
        await eventually(_refused(agent, "UNKNOWN_FRAME"))
        assert agent.streams == 1


async def test_contract_rule_5_a_sequence_gap_names_what_is_expected(mesh: Mesh) -> None:
    def say(frame: Frame) -> Replies:
        match frame.WhichOneof("frame"):
            case "assign_task":
                return [completed(frame, "too early", sequence=2)]
            case "failure" if frame.failure.metadata.get("expected") == "1":
                return [completed(frame, "in order", sequence=1)]
        return []

    async with BareAgent("hasty", mesh.registry.address, say) as agent:
        assert await run_role(mesh, "hasty") == "in order"
        assert refusals(agent) == ["SEQUENCE_GAP"]


async def test_a_frame_before_ready_is_refused_and_ready_still_opens(mesh: Mesh) -> None:
    early = AgentFrame(credit=session_pb2.Credit(max_tasks=99))
    async with BareAgent("eager", mesh.registry.address, on_assign(), before_ready=[early]) as agent:
        assert await run_role(mesh, "eager") == "done"
        assert "SESSION_NOT_OPEN" in refusals(agent)


async def test_a_repeated_result_counts_once_and_is_acked(mesh: Mesh) -> None:
    def say(frame: Frame) -> Replies:
        if frame.WhichOneof("frame") == "assign_task":
            return [completed(frame, "once", sequence=1), completed(frame, "once", sequence=1)]
        return []

    async with BareAgent("stutterer", mesh.registry.address, say, features=["park", "adopt"]) as agent:
        assert await run_role(mesh, "stutterer") == "once"

        async def acked() -> bool:
            return any(frame.ack == 1 for frame in agent.frames)

        await eventually(acked)


async def test_a_result_for_an_unknown_task_is_discarded(mesh: Mesh) -> None:
    def say(frame: Frame) -> Replies:
        if frame.WhichOneof("frame") != "assign_task":
            return []
        stranger = Frame(task=common_pb2.TaskRef(task_id="x.1", run_id="x", attempt=1, epoch=1))
        return [completed(stranger, sequence=1), completed(frame)]

    async with BareAgent("inventor", mesh.registry.address, say) as agent:
        assert await run_role(mesh, "inventor") == "done"

        async def discarded() -> bool:
            return any(frame.WhichOneof("frame") == "discarded" for frame in agent.frames)

        await eventually(discarded)


async def test_a_task_too_large_for_a_members_frames_fails_typed(mesh: Mesh) -> None:
    class Narrow(BareAgent):
        def _answer(self, frame: Frame) -> Replies:
            replies = super()._answer(frame)
            for reply in replies:
                if isinstance(reply, AgentFrame) and reply.HasField("ready"):
                    reply.ready.max_message_bytes = 200_000
            return replies

    async with Narrow("narrow", mesh.registry.address, on_assign()):

        async def known() -> bool:
            return bool([instance for instance in await mesh.directory.list_instances() if instance.role == "narrow"])

        await eventually(known)
        run = (await mesh.client.submit("x" * 300_000, roles=["narrow"], wait=10)).run
        assert run.state == TaskState.FAILED
        assert run.proto.failure.reason == failure_pb2.ERROR_REASON_FRAME_TOO_LARGE
        assert await run_role(mesh, "narrow") == "done"


def _refused(agent: BareAgent, reason: str) -> Callable[[], Awaitable[bool]]:
    async def look() -> bool:
        await asyncio.sleep(0)
        return reason in refusals(agent)

    return look
