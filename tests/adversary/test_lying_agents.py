"""An agent that lies about tasks, over bare stubs: only the instance that a task was dispatched to is heard."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator

import pytest

from archon.agent import TaskContext
from archon.api.agent.v1 import agent_pb2, session_pb2
from archon.api.agent.v1.agent_service_pb2 import SessionResponse
from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.client import RunHandle, answer_text
from archon.frames import FEATURES, MAX_FRAMES
from archon.types import Run, TaskState
from tests.fixtures.bare_agent import BareAgent, Frame, Replies
from tests.fixtures.mesh import ProcessMesh
from tests.fixtures.waiting import eventually
from tests.integration.services.orchestrator.troupe import Troupe, durable

AgentFrame = session_pb2.AgentFrame
COMPLETED = TaskState.COMPLETED


def silent(frame: Frame) -> Replies:
    """Answers nothing."""
    return []


@pytest.fixture
async def liar(mesh: ProcessMesh) -> AsyncIterator[BareAgent]:
    """A registered member of another role, whose session is open."""
    async with BareAgent(f"liar-{uuid.uuid4().hex[:6]}", mesh.registry.address, silent, features=FEATURES) as agent:

        async def open_() -> bool:
            return agent.streams > 0

        await eventually(open_)
        yield agent


class Victim:
    """A run whose only task is executed by an honest agent until `release` is set."""

    def __init__(self, mesh: ProcessMesh) -> None:
        self.role = f"victim-{uuid.uuid4().hex[:6]}"
        self.release = asyncio.Event()
        self.attempts: list[int] = []
        self._mesh = mesh
        self.handle: RunHandle

    async def work(self, task: TaskContext) -> str:
        """Waits until the test releases the task."""
        self.attempts.append(task.attempt)
        await self.release.wait()
        return "the truth"

    async def start(self) -> common_pb2.TaskRef:
        """Submits the run; returns the reference of the attempt that is under way."""
        self.handle = await self._mesh.client.submit("x", roles=[self.role])

        async def begun() -> bool:
            return bool(self.attempts)

        await eventually(begun)
        run_id = self.handle.run_id
        return common_pb2.TaskRef(task_id=f"{run_id}.1", run_id=run_id, attempt=1, epoch=1)

    async def end(self) -> Run:
        """Releases the task; returns the ended run."""
        self.release.set()
        return await self.handle.result(timeout=15)


@pytest.fixture
async def victim(mesh: ProcessMesh, troupe: Troupe) -> Victim:
    victim = Victim(mesh)
    await troupe(victim.role, victim.work)
    return victim


def result(text: str) -> agent_pb2.TaskResult:
    return agent_pb2.TaskResult(state=COMPLETED.proto, output=[common_pb2.Part(text=text)])


LIES = {
    "result": {"result": result("a lie")},
    "failed result": {"result": agent_pb2.TaskResult(state=common_pb2.TASK_STATE_FAILED)},
    "record": {"record": agent_pb2.CallRecord(kind=agent_pb2.RECORD_KIND_MODEL, target="lie", request_json='"lie"')},
    "checkpoint": {"checkpoint": session_pb2.Checkpoint(data=b"lie")},
    "progress": {"progress": agent_pb2.Progress(state=common_pb2.TASK_STATE_WORKING, text="a lie")},
    "usage": {"progress": agent_pb2.Progress(usage=common_pb2.Usage(output_tokens=10_000_000))},
    "delegate": {
        "delegate": session_pb2.Delegate(delegation_id="d1", role="requirements", input=[common_pb2.Part(text="lie")])
    },
    "cancel_delegation": {"cancel_delegation": session_pb2.CancelDelegation(delegation_id="d1")},
    "budget_request": {
        "budget_request": session_pb2.BudgetRequest(request_id="b1", budget=common_pb2.Budget(max_tokens=900))
    },
    "reject": {"reject": session_pb2.Reject()},
    "adopted": {"adopted": session_pb2.Adopted(last_applied=0)},
}


@pytest.mark.parametrize("lie", LIES)
async def test_a_frame_counts_only_from_the_instance_of_the_task(
    mesh: ProcessMesh, victim: Victim, liar: BareAgent, lie: str
) -> None:
    ref = await victim.start()
    watched: list[run_pb2.RunEvent] = []

    async def watch() -> None:
        async for event in victim.handle.events():
            watched.append(event.proto)

    watching = asyncio.create_task(watch())
    for attempt in (1, 2):  # the one under way, and one that does not exist
        for sequence in (1, 2):
            forged = common_pb2.TaskRef(task_id=ref.task_id, run_id=ref.run_id, attempt=attempt, epoch=1)
            liar.send(AgentFrame(task=forged, sequence=sequence, **LIES[lie]))  # type: ignore[arg-type]
    liar.send(AgentFrame(task=ref, sequence=3, result=result("at the end")))

    async def answered() -> bool:
        return any(frame.WhichOneof("frame") == "discarded" for frame in liar.frames)

    await eventually(answered)  # the frames before it were judged too
    run = await victim.end()
    assert (run.state, answer_text(run)) == (COMPLETED, "the truth")
    assert victim.attempts == [1]
    await asyncio.wait_for(watching, 5)
    events = await durable(victim.handle)
    arms = {event.WhichOneof("event") for event in events}
    assert arms <= {"submitted", "task_state", "dispatched", "result", "published", "run_state"}
    assert not any("lie" in str(event) for event in [*events, *watched] if event.WhichOneof("event") != "submitted")
    assert [record async for record in mesh.client.records(run.run_id)] == []
    log = mesh.orchestrator.log.read_text()
    assert log.count(f"{liar.instance_id} sent a frame about task") == 1, "it is logged once"


async def test_an_instance_that_serves_another_role_gets_no_task(mesh: ProcessMesh) -> None:
    role = f"claimed-{uuid.uuid4().hex[:6]}"

    def answer(frame: Frame) -> Replies:
        if frame.WhichOneof("frame") != "assign_task":
            return []
        return [AgentFrame(task=frame.task, result=result("not my role"))]

    async with BareAgent(role, mesh.registry.address, answer, served_role="another") as agent:

        async def dialled() -> bool:
            return agent.streams > 1

        await eventually(dialled)
        handle = await mesh.client.submit("x", roles=[role], timeout=1.0)
        run = await handle.result(timeout=10)
        assert run.state == TaskState.FAILED
        assert not [frame for frame in agent.frames if frame.HasField("assign_task")]


async def test_a_message_of_too_many_frames_ends_the_stream(mesh: ProcessMesh, victim: Victim, liar: BareAgent) -> None:
    """Decoding a million frames would hold up all other sessions."""
    await victim.start()
    before = liar.streams
    liar.send_message(SessionResponse.FromString(b"\x0a\x02\x2a\x00" * (MAX_FRAMES + 1)))

    async def dialled_again() -> bool:
        return liar.streams > before

    await eventually(dialled_again)
    assert (await victim.end()).state == COMPLETED
    assert victim.attempts == [1]
    assert f"{liar.instance_id} sent more than {MAX_FRAMES:,} frames" in mesh.orchestrator.log.read_text()
