"""Questions that an attempt asks a person while it continues, over real processes."""

from __future__ import annotations

import asyncio
import time
import uuid
from contextlib import AsyncExitStack

import pytest

from archon import context
from archon.agent import TaskContext
from archon.client import answer_text
from archon.errors import FailedPrecondition, InvalidArgument
from archon.types import TaskState
from tests.fixtures.mesh import Mesh
from tests.integration.services.orchestrator.test_people import first_question
from tests.integration.services.orchestrator.troupe import Troupe, durable, of


@pytest.fixture
def role() -> str:
    """A role that no other test has."""
    return f"clerk-{uuid.uuid4().hex[:6]}"


async def test_an_attempt_keeps_its_state_while_a_person_answers(mesh: Mesh, troupe: Troupe, role: str) -> None:
    async def clerk(task: TaskContext) -> str:
        state = object()
        colours = [await task.ask(f"colour {number}?", schema_json='{"enum": ["red", "blue"]}') for number in (1, 2)]
        return f"{' and '.join(colours)}, attempt {task.attempt}, {type(state).__name__}"

    await troupe(role, clerk)
    handle = await mesh.client.submit("x", roles=[role])
    for number, colour in ((1, "red"), (2, "blue")):
        question = await first_question(mesh, handle)
        assert (question.role, question.prompt[0].text) == (role, f"colour {number}?")
        with pytest.raises(InvalidArgument, match="does not match"):
            await mesh.client.respond(handle.run_id, question.input_id, "green")
        await mesh.client.respond(handle.run_id, question.input_id, colour)
    run = await handle.result(20)
    assert answer_text(run) == "red and blue, attempt 1, object"
    events = await durable(handle)
    assert [event.input_requested.sequence > 0 for event in of(events, "input_requested")] == [True, True]
    assert len(of(events, "dispatched")) == 1


async def test_the_time_of_a_task_stands_still_while_a_person_answers(mesh: Mesh, troupe: Troupe, role: str) -> None:
    """The run has less time than the person takes."""
    left: list[float | None] = []

    async def clerk(task: TaskContext) -> str:
        before = time.monotonic()
        left.append(task.remaining())
        await task.ask("well?")
        left.extend([task.remaining(), context.current().remaining(), time.monotonic() - before])
        return "in time"

    await troupe(role, clerk)
    handle = await mesh.client.submit("x", roles=[role], timeout=2.0)
    question = await first_question(mesh, handle)
    await mesh.advance(2.5)
    await mesh.client.respond(handle.run_id, question.input_id, "yes")
    assert answer_text(await handle.result(20)) == "in time"
    before, after, in_calls, waited = left
    assert before is not None and after is not None and in_calls is not None and waited is not None
    assert waited > 2.0
    assert before - 1.0 < after <= before
    assert before - 1.0 < in_calls <= before


async def test_a_later_attempt_does_not_ask_again(mesh: Mesh, troupe: Troupe, role: str) -> None:
    asked = asyncio.Event()

    async def clerk(task: TaskContext) -> str:
        asked.set()
        return f"{await task.ask('which?')} in attempt {task.attempt}"

    first = await troupe(role, clerk)
    handle = await mesh.client.submit("x", roles=[role])
    question = await first_question(mesh, handle)
    await first.stop(0.0)
    await mesh.client.respond(handle.run_id, question.input_id, "this")
    await troupe(role, clerk)
    assert answer_text(await handle.result(30)) == "this in attempt 2"


async def test_an_answer_to_a_question_that_was_withdrawn_is_refused(mesh: Mesh, troupe: Troupe, role: str) -> None:
    go_on = asyncio.Event()

    async def clerk(task: TaskContext) -> str:
        asking = asyncio.create_task(task.ask("still there?"))
        await go_on.wait()
        asking.cancel()
        return "without it"

    await troupe(role, clerk)
    handle = await mesh.client.submit("x", roles=[role])
    question = await first_question(mesh, handle)
    go_on.set()
    run = await handle.result(20)
    assert (run.state, answer_text(run)) == (TaskState.COMPLETED, "without it")
    with pytest.raises(FailedPrecondition):
        await mesh.client.respond(handle.run_id, question.input_id, "yes")


async def test_a_cancelled_run_stops_an_attempt_that_asks(mesh: Mesh, troupe: Troupe, role: str) -> None:
    stopped = asyncio.Event()

    async def clerk(task: TaskContext) -> str:
        try:
            return await task.ask("well?")
        finally:
            stopped.set()

    await troupe(role, clerk)
    handle = await mesh.client.submit("x", roles=[role])
    await first_question(mesh, handle)
    await mesh.client.cancel(handle.run_id)
    await asyncio.wait_for(stopped.wait(), 20)
    assert (await handle.result(20)).state == TaskState.CANCELED


async def test_a_live_question_survives_its_orchestrator(own_mesh: Mesh) -> None:
    mesh = own_mesh
    async with AsyncExitStack() as stack:
        troupe = Troupe(mesh, stack)
        attempts: list[int] = []

        async def clerk(task: TaskContext) -> str:
            attempts.append(task.attempt)
            return f"{await task.ask('which?')}: {task.remaining() is not None}"

        await troupe("clerk", clerk)
        handle = await mesh.client.submit("x", roles=["clerk"], timeout=60.0)
        question = await first_question(mesh, handle)
        await mesh.orchestrator.kill()
        await mesh.orchestrator.start()
        await mesh.client.respond(handle.run_id, question.input_id, "this")
        assert answer_text(await handle.result(30)) == "this: True"
        assert attempts == [1]
