"""Explanations and differences of runs of a mesh: with a question, a delegation, a retry, a cancellation and a failure."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from archon import AgentServer, TaskContext
from archon.errors import Unavailable
from archon.types import TaskState
from archon_mesh.explain import explain
from archon_mesh.recorded import RecordedRun, fetch_run
from archon_mesh.run_diff import RunDiff, diff_runs
from archon_services.reports.run_diff import diff_lines
from archon_services.testing import InProcessMesh
from tests.fixtures.waiting import eventually


@pytest.fixture(scope="module")
async def mesh(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[InProcessMesh]:
    async def count(task: TaskContext) -> str:
        if "fail" in task.text and task.attempt == 1:
            raise Unavailable("the scale is busy", retry_delay=0.01)
        return f"3 sheep in {task.text}"

    async def lead(task: TaskContext) -> str:
        answer = await task.delegate(task.text, role="counter")
        colour = await task.ask("Which colour?")
        return f"{answer.text}, {colour}"

    async def report(task: TaskContext) -> str:
        return f"Report: {task.context[0].text}. {task.text}"

    async def wait(task: TaskContext) -> str:
        await asyncio.Event().wait()
        return ""

    async with InProcessMesh(tmp_path_factory.mktemp("mesh")) as mesh, AsyncExitStack() as stack:
        for role, handler in {"counter": count, "lead": lead, "reporter": report, "waiter": wait}.items():
            server = AgentServer(
                role,
                handler=handler,
                depends_on=["counter"] if role == "reporter" else [],
                coordinator=role == "lead",
                settings=mesh.agent_settings(),
            )
            await stack.enter_async_context(server)
        yield mesh


async def run_of(mesh: InProcessMesh, goal: str, *roles: str, colour: str = "", strategy: str = "") -> RecordedRun:
    handle = await mesh.client.submit(goal, roles=roles, strategy=strategy)
    if colour:

        async def asked() -> bool:
            return bool((await mesh.client.get(handle.run_id)).questions)

        await eventually(asked)
        question = (await mesh.client.get(handle.run_id)).questions[0]
        await mesh.client.respond(handle.run_id, question.input_id, colour)
    await handle.result(10)
    return await fetch_run(mesh.client, handle.run_id)


def lines(diff: RunDiff, width: int = 80) -> str:
    shown = list(diff_lines(diff, width))
    assert all(len(line) <= width for line in shown), shown
    return "\n".join(shown)


async def test_an_explanation_is_the_same_each_time_and_names_what_happened(mesh: InProcessMesh) -> None:
    recorded = await run_of(mesh, "fail once", "lead", colour="red", strategy="agent")
    explanation = explain(recorded)
    paragraph = explanation.paragraph()
    for said in (
        "lead delegated to counter.",
        'lead asked "Which colour?", and',
        'answered "red".',
        "counter had to begin again once, because the scale is busy",
        'The answer of lead is "3 sheep in fail once, red".',
    ):
        assert said in paragraph, paragraph
    again = explain(await fetch_run(mesh.client, recorded.run.run_id))
    assert again == explanation
    events = {event.seq for event in recorded.events}
    assert [line.seq for line in explanation.record] == sorted(events)
    assert all(set(fact.seqs) <= events for fact in explanation.facts)


async def test_a_cancelled_run_is_explained_with_the_reason(mesh: InProcessMesh) -> None:
    handle = await mesh.client.submit("wait", roles=["waiter"])
    await mesh.client.cancel(handle.run_id, "it takes too long")
    await handle.result(10)
    explanation = explain(await fetch_run(mesh.client, handle.run_id))
    assert explanation.state == TaskState.CANCELED and explanation.conclusion.endswith(": it takes too long.")
    assert len(next(fact.seqs for fact in explanation.facts if fact.kind == "outcome")) == 2


async def test_equal_runs_are_the_same(mesh: InProcessMesh) -> None:
    left, right = [await run_of(mesh, "the field", "counter", "reporter") for _ in range(2)]
    diff = diff_runs(left, right)
    assert diff.same and diff.document()["same"]
    assert "The runs are the same, apart from ids, instances and times." in lines(diff)
    assert diff_runs(left, left).same


async def test_another_goal_changes_the_answers_word_by_word(mesh: InProcessMesh) -> None:
    left = await run_of(mesh, "the field", "counter", "reporter")
    right = await run_of(mesh, "the barn", "counter", "reporter")
    diff = diff_runs(left, right)
    shown = lines(diff)
    assert not diff.same and [change.label for change in diff.answers] == ["counter", "reporter"]
    assert "3 sheep in the [-field-]" in shown and "3 sheep in the {+barn+}" in shown
    assert "tasks  2 tasks, the same in both" in shown
    wide = lines(diff, 140)
    assert "Report: 3 sheep in the [-field.-] the [-field-]" in wide


async def test_attempts_delegations_and_missing_tasks_are_structure(mesh: InProcessMesh) -> None:
    plain = await run_of(mesh, "the field", "lead", colour="red", strategy="agent")
    retried = await run_of(mesh, "fail once", "lead", colour="red", strategy="agent")
    other = await run_of(mesh, "the field", "counter", strategy="agent")
    changed = {task.label: task.same for task in diff_runs(plain, retried).tasks}
    assert changed == {"lead": True, "lead > counter": False}
    shown = lines(diff_runs(plain, retried))
    assert "lead > counter: completed, 1 attempt" in shown and "(retried)" in shown
    missing = diff_runs(plain, other)
    assert [task.label for task in missing.tasks if None in task.sides] == ["lead", "lead > counter", "counter"]
    assert [change.label for change in missing.answers] == ["final answer"]
    assert "(no such task)" in lines(missing)
