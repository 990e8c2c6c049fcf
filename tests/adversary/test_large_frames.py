"""Frames above the limit of the contract: their task fails with a typed error, and nothing else is harmed."""

from __future__ import annotations

import uuid

import pytest

from archon import status
from archon.api.agent.v1 import agent_pb2, session_pb2
from archon.api.common.v1 import common_pb2
from archon.client import answer_text
from archon.errors import FrameTooLarge
from archon.types import TaskState
from tests.fixtures.bare_agent import BareAgent, Frame, Replies
from tests.fixtures.mesh import ProcessMesh
from tests.fixtures.waiting import eventually

MB = 1024 * 1024


def large(megabytes: int, arm: str) -> session_pb2.AgentFrame:
    content = "x" * (megabytes * MB)
    match arm:
        case "checkpoint":
            return session_pb2.AgentFrame(checkpoint=session_pb2.Checkpoint(data=content.encode()), sequence=1)
        case "delegate":
            delegate = session_pb2.Delegate(delegation_id="d", role="b", input=[common_pb2.Part(text=content)])
            return session_pb2.AgentFrame(delegate=delegate, sequence=1)
        case "record":
            record = agent_pb2.CallRecord(kind=agent_pb2.RECORD_KIND_MODEL, target="m", request_json=content)
            return session_pb2.AgentFrame(record=record, sequence=1)
    return session_pb2.AgentFrame(result=result(content), sequence=1)


def result(text: str) -> agent_pb2.TaskResult:
    return agent_pb2.TaskResult(state=common_pb2.TASK_STATE_COMPLETED, output=[common_pb2.Part(text=text)])


@pytest.mark.parametrize(
    ("arm", "megabytes"),
    [
        ("result", 5),
        pytest.param("result", 20, marks=pytest.mark.slow),
        pytest.param("result", 70, marks=pytest.mark.slow),
        ("checkpoint", 5),
        ("delegate", 5),
    ],
)
async def test_a_frame_above_the_limit_fails_its_task_typed(mesh: ProcessMesh, arm: str, megabytes: int) -> None:
    role = f"large-{uuid.uuid4().hex[:6]}"
    frame = large(megabytes, arm)

    def answer(received: Frame) -> Replies:
        if received.WhichOneof("frame") != "assign_task":
            return []
        if received.assign_task.input[0].text == "small":
            return [session_pb2.AgentFrame(task=received.task, sequence=1, result=result("small"))]
        frame.task.CopyFrom(received.task)
        return [frame]

    async with BareAgent(role, mesh.registry.address, answer) as agent:
        await mesh.seen(agent.address)
        run = (await mesh.client.submit("large", roles=[role], wait=20)).run
        assert run.state == TaskState.FAILED
        error = status.from_failure(run.proto.failure)
        assert (type(error), error.kind) == (FrameTooLarge, "input.invalid")
        # A message of 70 MB may take longer than the silence limit: then the first attempt is lost.
        assert [task.attempt for task in run.tasks] in ([1], [2] if megabytes > 64 else [1])

        async def served() -> bool:
            after = (await mesh.client.submit("small", roles=[role], wait=10)).run
            return answer_text(after) == "small"

        await eventually(served)


async def test_a_record_above_the_limit_is_kept_without_its_content(mesh: ProcessMesh) -> None:
    role = f"large-{uuid.uuid4().hex[:6]}"

    def answer(received: Frame) -> Replies:
        if received.WhichOneof("frame") != "assign_task":
            return []
        record = large(5, "record")
        record.task.CopyFrom(received.task)
        return [record, session_pb2.AgentFrame(task=received.task, sequence=2, result=result("done"))]

    async with BareAgent(role, mesh.registry.address, answer) as agent:
        await mesh.seen(agent.address)
        run = (await mesh.client.submit("x", roles=[role], wait=20)).run
        assert answer_text(run) == "done"
        (record,) = [record async for record in mesh.client.records(run.run_id)]
        assert (record.target, "too large to record" in record.request_json) == ("m", True)
