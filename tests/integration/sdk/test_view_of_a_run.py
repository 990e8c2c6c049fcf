"""A run is followed by its view while it goes on."""

from __future__ import annotations

import importlib.util
import uuid
from pathlib import Path
from typing import Any

from archon.run_view import RunView, TaskState
from archon.testing import FakeAgent
from tests.fixtures.mesh import Mesh, mesh

__all__ = ["mesh"]

EXAMPLE = Path(__file__).parents[3] / "examples" / "clients.py"


async def test_views_follow_a_run_to_its_end(mesh: Mesh) -> None:
    role, states, view = f"poet-{uuid.uuid4().hex[:6]}", list[TaskState](), RunView()
    async with FakeAgent(role, ["a line"], registry=mesh.registry.address):
        handle = await mesh.client.submit("x", roles=[role])
        async for view in handle.views():
            states.append(view.state)
    assert list(dict.fromkeys(states)) == ["submitted", "working", "completed"]
    (task,) = view.tasks.values()
    run = await mesh.client.get(handle.run_id)
    assert (task.task_id, task.state, task.result_seq) == (run.tasks[0].task_id, "completed", run.tasks[0].result_seq)
    assert run.state == TaskState.COMPLETED
    assert view.last_seq == run.last_seq
    resumed = RunView()
    async for event in mesh.client.watch(handle.run_id):
        resumed.apply(event)
    assert (resumed.tasks[task.task_id].attempts, resumed.state) == (task.attempts, view.state)


def load_example() -> Any:
    spec = importlib.util.spec_from_file_location("clients", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    return example


async def test_the_example_of_events_on_the_page_of_clients_ends_with_the_answer(mesh: Mesh) -> None:
    lines = await load_example().narrate(mesh.client, "The clerk must see overdue books.")
    assert [line.partition(" s: ")[2] for line in lines[:-1]] == [
        *("requirements completed", "designer completed", "implementer completed")
    ]
    assert lines[-1].startswith("implementer: ")


async def test_the_example_on_the_page_of_clients_has_changes(mesh: Mesh) -> None:
    lines = await load_example().follow(mesh.client, "The clerk must see overdue books.")
    assert lines[:3] == [
        "requirements: submitted",
        "designer: submitted, waits for requirements",
        "implementer: submitted, waits for requirements and designer",
    ]
    assert [line for line in lines if line.endswith(": completed")] == [
        *("requirements: completed", "designer: completed", "implementer: completed")
    ]
