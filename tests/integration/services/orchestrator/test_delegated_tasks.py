"""The context of a delegated task, and its representation in runs and events."""

from __future__ import annotations

import asyncio
from typing import Any

from archon.agent import TaskContext
from archon.client import answer_text
from archon.errors import ArchonError
from tests.fixtures.mesh import Mesh
from tests.fixtures.waiting import eventually
from tests.integration.services.orchestrator.troupe import Troupe, durable, failing_to, of


async def test_a_role_of_a_pipeline_may_delegate(mesh: Mesh, troupe: Troupe) -> None:
    async def editor(task: TaskContext) -> str:
        again = await task.delegate("again", role="requirements")
        return f"{task.context[0].text} & {again.text}"

    async def printer(task: TaskContext) -> str:
        return f"printed {task.context[0].text}"

    await troupe("editor", editor, depends_on=["requirements"])
    await troupe("printer", printer, depends_on=["editor"])
    roles = ["requirements", "editor", "printer"]
    run = (await mesh.client.submit("x", roles=roles, wait=10)).run
    assert answer_text(run) == "printed requirements() & requirements()"
    assert [task.role for task in run.tasks] == [*roles, "requirements"]


async def test_a_delegated_task_receives_the_newest_upstream_answers(mesh: Mesh, troupe: Troupe) -> None:
    async def lead(task: TaskContext) -> str:
        await task.delegate("x", role="requirements")
        await task.delegate("y", role="requirements")
        first = await task.delegate("z", role="designer")
        second = await task.delegate("z", role="implementer")
        return f"{first.text}; {second.text}"

    await troupe("lead", lead, coordinator=True)
    handle = await mesh.client.submit("x", roles=["lead"], wait=10)
    assert answer_text(handle.run) == "designer(requirements()); implementer(requirements(), designer(requirements()))"
    events = await durable(handle)
    _, newest = of(events, "result", "requirements")
    (context,) = of(events, "dispatched", "designer")[0].dispatched.given
    assert (context.role, context.seq) == ("requirements", newest.seq)


async def test_a_run_and_its_watch_name_parent_and_waiting_reason(mesh: Mesh, troupe: Troupe) -> None:
    begun, release = asyncio.Event(), asyncio.Event()

    async def cook(task: TaskContext) -> str:
        begun.set()
        await release.wait()
        return "done"

    await troupe("cook", cook)
    await troupe("chef", failing_to([], role="cook"))
    handle = await mesh.client.submit("x", roles=["chef"])
    async with asyncio.timeout(10):
        await begun.wait()
    chef, child = (await mesh.client.get(handle.run_id)).tasks
    assert (chef.waiting_for, child.waiting_for) == ("the answer of cook", "")
    release.set()
    events = await durable(handle)
    (created,) = [event.task_state for event in of(events, "task_state", "cook")]
    assert created.parent_task_id == chef.task_id == child.parent_task_id
    assert {task.waiting_for for task in (await handle.result(timeout=10)).tasks} == {""}


async def test_a_delegation_to_a_stopped_role_waits_for_an_instance(mesh: Mesh, troupe: Troupe) -> None:
    errors: list[ArchonError] = []
    going = asyncio.Event()

    async def lead(task: TaskContext) -> Any:
        await going.wait()
        return await failing_to(errors, role="cook", timeout=10.0)(task)

    async def cook(task: TaskContext) -> str:
        return "here again"

    first = await troupe("cook", cook)
    await troupe("lead", lead, coordinator=True)
    handle = await mesh.client.submit("x", roles=["lead"])
    await first.stop()
    await mesh.seen(first.address, gone=True)
    going.set()

    async def delegated() -> bool:
        return len((await mesh.client.get(handle.run_id)).tasks) == 2

    await eventually(delegated)
    assert "an instance of cook" in (await mesh.client.get(handle.run_id)).tasks[1].waiting_for
    await troupe("cook", cook)
    assert answer_text(await handle.result(timeout=10)) == "here again", errors
