"""Failures that may be retried are retried; others are final (the table of recoveries)."""

from __future__ import annotations

import time
import uuid

from archon.agent import TaskContext
from archon.api.common.v1 import common_pb2
from archon.client import answer_text
from archon.errors import Internal, ResourceExhausted
from tests.fixtures.mesh import Mesh
from tests.integration.services.orchestrator.troupe import Troupe, durable, of


async def test_a_task_is_retried_after_the_delay_of_its_error(mesh: Mesh, troupe: Troupe) -> None:
    role = f"busy-{uuid.uuid4().hex[:6]}"

    async def busy(task: TaskContext) -> str:
        if task.attempt < 3:
            raise ResourceExhausted("the model is overloaded", retry_delay=1.0)
        return f"attempt {task.attempt}"

    await troupe(role, busy)
    began = time.monotonic()
    handle = await mesh.client.submit("x", roles=[role])
    assert answer_text(await handle.result(timeout=15)) == "attempt 3"
    assert time.monotonic() - began >= 2.0
    retries = of(await durable(handle), "retry", role)
    assert [event.retry.failure.message for event in retries] == ["the model is overloaded"] * 2


async def test_a_task_that_keeps_failing_fails_the_run(mesh: Mesh, troupe: Troupe) -> None:
    role, attempts = f"busy-{uuid.uuid4().hex[:6]}", []

    async def busy(task: TaskContext) -> str:
        attempts.append(task.attempt)
        raise ResourceExhausted(f"busy, attempt {task.attempt}", retry_delay=0.1)

    await troupe(role, busy)
    run = (await mesh.client.submit("x", roles=[role], wait=15)).run
    assert (run.state, run.failure.message) == (common_pb2.TASK_STATE_FAILED, "busy, attempt 3")
    assert attempts == [1, 2, 3]


async def test_a_failure_without_a_retry_delay_is_final(mesh: Mesh, troupe: Troupe) -> None:
    role, attempts = f"broken-{uuid.uuid4().hex[:6]}", []

    async def broken(task: TaskContext) -> str:
        attempts.append(task.attempt)
        raise Internal("it broke")

    await troupe(role, broken)
    run = (await mesh.client.submit("x", roles=[role], wait=15)).run
    assert (run.state, attempts) == (common_pb2.TASK_STATE_FAILED, [1])
