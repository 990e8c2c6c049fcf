"""Questions that are asked again, answers that are too large, and the waiting reason of a paused run."""

from __future__ import annotations

import uuid
from typing import Any

import grpc.aio
import pytest

from archon.agent import Question, TaskContext
from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.api.orchestrator.v1 import orchestrator_service_pb2_grpc
from archon.client import answer_text
from archon.errors import MessageTooLarge
from archon.status import from_rpc_error
from tests.fixtures.mesh import Mesh
from tests.fixtures.waiting import eventually
from tests.integration.services.orchestrator.test_people import clerk, first_question
from tests.integration.services.orchestrator.troupe import Troupe


async def test_a_question_asked_again_can_be_answered_again(mesh: Mesh, troupe: Troupe) -> None:
    role = f"clerk-{uuid.uuid4().hex[:6]}"

    async def insist(task: TaskContext) -> str | Question:
        sure = bool(task.inputs) and task.inputs[-1].text == "yes"
        return f"attempt {task.attempt}" if sure else Question("sure?", input_id="sure")

    await troupe(role, insist)
    handle = await mesh.client.submit("x", roles=[role])
    question = await first_question(mesh, handle)
    await mesh.client.respond(handle.run_id, question.input_id, "no")

    async def asks_again() -> bool:
        run = await mesh.client.get(handle.run_id)
        return bool(run.questions) and run.tasks[0].attempt == 2

    await eventually(asks_again)
    try:
        await mesh.client.respond(handle.run_id, (await first_question(mesh, handle)).input_id, "yes")
        assert answer_text(await handle.result(timeout=10)) == "attempt 3"
    finally:
        await handle.cancel("the test is over")


async def test_a_task_of_a_paused_run_waits_for_its_resume(mesh: Mesh, troupe: Troupe) -> None:
    role = f"clerk-{uuid.uuid4().hex[:6]}"
    await troupe(role, clerk)
    handle = await mesh.client.submit("xyz", roles=[role])
    question = await first_question(mesh, handle)
    await mesh.client.pause(handle.run_id)
    run = await mesh.client.respond(handle.run_id, question.input_id, "blue")
    await handle.cancel("the test is over")
    assert "resume" in run.tasks[0].waiting_for


async def test_an_oversized_answer_is_refused_and_the_question_stays(mesh: Mesh, troupe: Troupe) -> None:
    role = f"clerk-{uuid.uuid4().hex[:6]}"
    await troupe(role, clerk)
    handle = await mesh.client.submit("xyz", roles=[role])
    question = await first_question(mesh, handle)
    large = [common_pb2.Part(text="x" * 4_500_000)]  # sent with bare stubs, because the client would refuse it
    try:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            async with grpc.aio.insecure_channel(mesh.orchestrator.address) as channel:
                stub: Any = orchestrator_service_pb2_grpc.OrchestratorServiceStub(channel)
                await stub.Respond(pb.RespondRequest(run_id=handle.run_id, input_id=question.input_id, parts=large))
        assert isinstance(from_rpc_error(refused.value), MessageTooLarge)
        assert (await mesh.client.get(handle.run_id)).questions
    finally:
        await handle.cancel("the test is over")
