"""Failures that may be retried are retried; others are final (the table of recoveries)."""

from __future__ import annotations

import time
import uuid

from archon import status
from archon.agent import TaskContext
from archon.client import answer_text
from archon.errors import FieldViolation, Internal, InvalidArgument, IterationLimit, ResourceExhausted, Unavailable
from archon.failure_kinds import ErrorSeverity
from archon.types import Failure, TaskState
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
    assert answer_text(await mesh.advance_until(handle.result(timeout=60))) == "attempt 3"
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
    assert (run.state, run.proto.failure.message) == (TaskState.FAILED, "busy, attempt 3")
    assert attempts == [1, 2, 3]


async def test_a_failure_reaches_the_caller_with_every_field(mesh: Mesh, troupe: Troupe) -> None:
    role = f"broken-{uuid.uuid4().hex[:6]}"
    error = InvalidArgument(
        "the order is incomplete",
        metadata={"order": "17"},
        field_violations=[FieldViolation("order.items", "empty")],
        kind="tool.invalid_parameters",
        severity=ErrorSeverity.CRITICAL,
        causes=[Unavailable("the shop did not answer", kind="tool.network")],
    )

    async def broken(task: TaskContext) -> str:
        raise error

    await troupe(role, broken)
    handle = await mesh.client.submit("x", roles=[role])
    run = await handle.result(timeout=15)
    expected = status.to_failure(error)
    assert run.proto.failure == expected
    assert (await mesh.client.get(run.run_id)).failure == run.failure == Failure.from_proto(expected)
    assert of(await durable(handle), "result", role)[0].result.failure == expected


async def test_an_iteration_limit_brings_what_the_agent_had_found(mesh: Mesh, troupe: Troupe) -> None:
    role = f"thorough-{uuid.uuid4().hex[:6]}"

    async def thorough(task: TaskContext) -> str:
        raise IterationLimit("no answer", metadata={"partial_answer": "two of three books"})

    await troupe(role, thorough)
    run = (await mesh.client.submit("x", roles=[role], wait=15)).run
    received = status.from_failure(run.proto.failure)
    assert isinstance(received, IterationLimit)
    assert received.partial_answer == "two of three books"


async def test_a_failure_without_a_retry_delay_is_final(mesh: Mesh, troupe: Troupe) -> None:
    role, attempts = f"broken-{uuid.uuid4().hex[:6]}", []

    async def broken(task: TaskContext) -> str:
        attempts.append(task.attempt)
        raise Internal("it broke")

    await troupe(role, broken)
    run = (await mesh.client.submit("x", roles=[role], wait=15)).run
    assert (run.state, attempts) == (TaskState.FAILED, [1])
