"""Questions to people, pauses, and checkpoints, over a real mesh (rule C7)."""

from __future__ import annotations

import asyncio
import uuid

import pytest

from archon.agent import Question, TaskContext
from archon.client import RunHandle, answer_text
from archon.errors import ArchonError, FailedPrecondition, FrameTooLarge, InvalidArgument, RequestIdReused, Unavailable
from archon.types import RunQuestion, TaskState
from archon_mesh.engine import inputs as inp
from archon_services.orchestrator.api.control import RunControl
from archon_services.orchestrator.journal import AuditRow
from tests.fixtures.mesh import Mesh
from tests.fixtures.waiting import eventually
from tests.integration.services.orchestrator.troupe import Troupe, durable, of

INPUT_REQUIRED = TaskState.INPUT_REQUIRED


async def first_question(mesh: Mesh, handle: RunHandle) -> RunQuestion:
    """Waits until the run has a question, and returns the first."""
    questions: list[RunQuestion] = []

    async def look() -> bool:
        questions[:] = (await mesh.client.get(handle.run_id)).questions
        return bool(questions)

    await eventually(look)
    return questions[0]


async def clerk(task: TaskContext) -> str | Question:
    """Asks one question with a checkpoint; the next attempt answers with both."""
    if not task.inputs:
        return Question("which colour?", checkpoint=f"page {len(task.text)}".encode())
    return f"{task.input_text} on {task.checkpoint.decode()}, attempt {task.attempt}"


async def test_contract_rule_7_a_question_frees_its_slot(mesh: Mesh, troupe: Troupe) -> None:
    role = f"clerk-{uuid.uuid4().hex[:6]}"
    await troupe(role, clerk, max_tasks=1)
    handles = [await mesh.client.submit("xyz", roles=[role]) for _ in range(3)]
    questions = [await first_question(mesh, handle) for handle in handles]
    assert len(questions) == 3, "three tasks of one slot wait for a person"
    run = await mesh.client.get(handles[0].run_id)
    assert run.state == INPUT_REQUIRED
    (task,) = run.tasks
    assert (task.state, task.waiting_for) == (INPUT_REQUIRED, "a person's answer")
    assert (questions[0].task_id, questions[0].role, questions[0].prompt[0].text) == (
        task.task_id,
        role,
        "which colour?",
    )
    for handle, question in zip(handles, questions, strict=True):
        await mesh.client.respond(handle.run_id, question.input_id, "blue")
        assert answer_text(await handle.result(timeout=10)) == "blue on page 3, attempt 2"
    events = await durable(handles[0])
    (requested,), (answered,) = of(events, "input_requested"), of(events, "input_given")
    assert requested.input_requested.input_id == answered.input_given.input_id == questions[0].input_id
    assert not of(events, "lost")


async def test_an_invalid_answer_is_refused_and_the_question_stays(mesh: Mesh, troupe: Troupe) -> None:
    role = f"chooser-{uuid.uuid4().hex[:6]}"

    async def choose(task: TaskContext) -> str | Question:
        schema = '{"enum": ["left", "right"]}'
        return f"went {task.input_text}" if task.inputs else Question("where?", schema_json=schema)

    await troupe(role, choose)
    handle = await mesh.client.submit("x", roles=[role])
    question = await first_question(mesh, handle)
    assert question.schema_json
    for answer, input_id, error in (
        ("up", question.input_id, InvalidArgument),
        (" ", question.input_id, InvalidArgument),
        ("left", "q1", FailedPrecondition),
        ("left", "", FailedPrecondition),
        ("left", "x" * 300, InvalidArgument),
    ):
        with pytest.raises(error):
            await mesh.client.respond(handle.run_id, input_id, answer)
    with pytest.raises(ArchonError, match="there is no run"):
        await mesh.client.respond("unknown", question.input_id, "left")
    await mesh.client.respond(handle.run_id, question.input_id, '"left"', request_id="q")
    await mesh.client.respond(handle.run_id, question.input_id, '"left"', request_id="q")
    with pytest.raises(RequestIdReused):
        await mesh.client.respond(handle.run_id, question.input_id, "right", request_id="q")
    assert answer_text(await handle.result(timeout=10)) == 'went "left"'
    with pytest.raises(FailedPrecondition):
        await mesh.client.respond(handle.run_id, question.input_id, "right")


async def test_two_answers_at_once_have_one_winner(mesh: Mesh, troupe: Troupe) -> None:
    role = f"clerk-{uuid.uuid4().hex[:6]}"
    await troupe(role, clerk)
    handle = await mesh.client.submit("xyz", roles=[role])
    question = await first_question(mesh, handle)
    answers = [f"colour {number}" for number in range(8)]
    results = await asyncio.gather(
        *(mesh.client.respond(handle.run_id, question.input_id, answer, request_id=answer) for answer in answers),
        return_exceptions=True,
    )
    (won,) = [answer for answer, result in zip(answers, results, strict=True) if not isinstance(result, BaseException)]
    assert all(isinstance(result, FailedPrecondition) for result in results if isinstance(result, BaseException))
    assert answer_text(await handle.result(timeout=10)).startswith(won)


async def test_a_delegated_task_may_ask_and_be_cancelled(mesh: Mesh, troupe: Troupe) -> None:
    role, chief = f"clerk-{uuid.uuid4().hex[:6]}", f"chief-{uuid.uuid4().hex[:6]}"

    async def lead(task: TaskContext) -> str:
        return f"received {(await task.delegate('xyz', role=role)).text}"

    await troupe(role, clerk)
    await troupe(chief, lead)
    handle = await mesh.client.submit("x", roles=[chief])
    question = await first_question(mesh, handle)
    await mesh.client.respond(handle.run_id, question.input_id, "red")
    assert answer_text(await handle.result(timeout=10)) == "received red on page 3, attempt 2"
    handle = await mesh.client.submit("x", roles=[chief])
    question = await first_question(mesh, handle)
    await handle.cancel("enough")
    run = await handle.result(timeout=10)
    assert run.state == TaskState.CANCELED
    assert not run.questions
    with pytest.raises(FailedPrecondition):
        await mesh.client.respond(handle.run_id, question.input_id, "red")


async def test_a_question_is_answered_on_a_converse_stream(mesh: Mesh, troupe: Troupe) -> None:
    role = f"clerk-{uuid.uuid4().hex[:6]}"
    await troupe(role, clerk)
    async with mesh.client.converse() as stream:
        run = await stream.submit("xyz", roles=[role])
        async for event in stream:
            if event.type == "input_requested":
                await stream.respond(run.run_id, event.proto.input_requested.input_id, "green")
            if event.type == "run_state":
                break
    assert answer_text(await mesh.client.get(run.run_id)).startswith("green")


async def test_a_paused_run_dispatches_nothing_until_it_is_resumed(mesh: Mesh, troupe: Troupe) -> None:
    first, second = (f"{name}-{uuid.uuid4().hex[:6]}" for name in ("first", "second"))
    go, began = asyncio.Event(), []

    async def opening(task: TaskContext) -> str:
        await go.wait()
        return "opened"

    async def closing(task: TaskContext) -> str:
        began.append(task.run_id)
        return "closed"

    await troupe(first, opening)
    await troupe(second, closing, depends_on=[first])
    handle = await mesh.client.submit("x", roles=[first, second])
    assert (await mesh.client.pause(handle.run_id)).paused
    assert (await mesh.client.pause(handle.run_id)).paused, "pausing again changes nothing"
    go.set()

    async def first_done() -> bool:
        return (await mesh.client.get(handle.run_id)).tasks[0].state == TaskState.COMPLETED

    await eventually(first_done)
    await mesh.advance(1.0)
    assert not began
    assert not (await mesh.client.resume(handle.run_id)).paused
    assert answer_text(await handle.result(timeout=10)) == "closed"
    with pytest.raises(FailedPrecondition):
        await mesh.client.pause(handle.run_id)
    with pytest.raises(FailedPrecondition):
        await mesh.client.resume(handle.run_id)


async def test_a_resume_counts_even_if_the_run_ends_before_the_call_returns(
    mesh: Mesh, troupe: Troupe, monkeypatch: pytest.MonkeyPatch
) -> None:
    role = f"quick-{uuid.uuid4().hex[:6]}"

    async def quick(task: TaskContext) -> str | Question:
        if not task.inputs:
            return Question("go on?")
        return "done"

    await troupe(role, quick)
    handle = await mesh.client.submit("x", roles=[role])
    question = await first_question(mesh, handle)
    await mesh.client.pause(handle.run_id)
    await mesh.client.respond(handle.run_id, question.input_id, "yes")
    deliver = RunControl._deliver

    async def until_the_end(control: RunControl, run_id: str, command: inp.Command, audit: AuditRow) -> None:
        await deliver(control, run_id, command, audit)
        await control._runs.wait_until_finished(run_id)

    monkeypatch.setattr(RunControl, "_deliver", until_the_end)
    run = await mesh.client.resume(handle.run_id)
    assert (run.paused, answer_text(run)) == (False, "done")
    with pytest.raises(FailedPrecondition, match="has ended"):
        await mesh.client.resume(handle.run_id)


async def test_a_run_that_is_cancelled_while_it_is_paused_cannot_be_resumed(
    mesh: Mesh, troupe: Troupe, monkeypatch: pytest.MonkeyPatch
) -> None:
    role = f"clerk-{uuid.uuid4().hex[:6]}"
    await troupe(role, clerk)
    handle = await mesh.client.submit("x", roles=[role])
    await first_question(mesh, handle)
    await mesh.client.pause(handle.run_id)
    deliver = RunControl._deliver

    async def second(control: RunControl, run_id: str, command: inp.Command, audit: AuditRow) -> None:
        await deliver(control, run_id, inp.Cancel("someone else", "changed my mind"), audit)
        await deliver(control, run_id, command, audit)

    monkeypatch.setattr(RunControl, "_deliver", second)
    with pytest.raises(FailedPrecondition, match="has ended"):
        await mesh.client.resume(handle.run_id)


async def test_questions_and_pauses_survive_the_orchestrator(own_mesh: Mesh) -> None:
    from contextlib import AsyncExitStack

    mesh = own_mesh
    async with AsyncExitStack() as stack:
        troupe = Troupe(mesh, stack)
        await troupe("clerk", clerk)
        asking, paused = await mesh.client.submit("xyz", roles=["clerk"]), None
        question = await first_question(mesh, asking)
        paused = await mesh.client.submit("pp", roles=["clerk"])
        await first_question(mesh, paused)
        await mesh.client.pause(paused.run_id)
        await mesh.orchestrator.kill()
        await mesh.orchestrator.start()

        async def back() -> bool:
            try:
                return (await mesh.client.get(asking.run_id)).state == INPUT_REQUIRED
            except Unavailable:
                return False

        await eventually(back)
        await mesh.client.respond(asking.run_id, question.input_id, "blue")
        assert answer_text(await asking.result(timeout=10)) == "blue on page 3, attempt 2"
        await mesh.client.respond(paused.run_id, (await first_question(mesh, paused)).input_id, "blue")
        assert (await mesh.client.get(paused.run_id)).paused
        await mesh.client.resume(paused.run_id)
        assert answer_text(await paused.result(timeout=10)) == "blue on page 2, attempt 2"


async def test_the_next_attempt_starts_from_the_last_checkpoint(mesh: Mesh, troupe: Troupe) -> None:
    role = f"walker-{uuid.uuid4().hex[:6]}"
    stuck = asyncio.Event()

    async def walk(task: TaskContext) -> str:
        last_step = int(task.checkpoint or b"0")
        for step in range(last_step + 1, 6):
            task.save(str(step).encode())
            if step == 3 and task.attempt == 1:
                stuck.set()
                await asyncio.Event().wait()
        return f"from {last_step}, attempt {task.attempt}"

    first = await troupe(role, walk)
    handle = await mesh.client.submit("x", roles=[role])
    async with asyncio.timeout(10):
        await stuck.wait()

    async def journaled() -> bool:
        async for event in handle.events():
            if event.type == "checkpoint" and event.proto.checkpoint.data == b"3":
                return True
        return False

    assert await journaled()
    await troupe(role, walk)
    await first.stop(0.0)
    assert answer_text(await handle.result(timeout=15)) == "from 3, attempt 2"


async def test_a_checkpoint_above_a_mebibyte_is_refused_by_the_agent(mesh: Mesh, troupe: Troupe) -> None:
    role = f"hoarder-{uuid.uuid4().hex[:6]}"

    async def hoard(task: TaskContext) -> str | Question:
        with pytest.raises(FrameTooLarge):
            task.save(bytes(1024 * 1024 + 1))
        return Question("?", checkpoint=bytes(1024 * 1024 + 1))

    await troupe(role, hoard)
    run = (await mesh.client.submit("x", roles=[role], wait=10)).run
    assert run.proto.failure.message.startswith("a checkpoint of")
