"""Workflows through a mesh of real processes: loops, conditions, error branches, approvals, and a killed orchestrator."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from archon.agent import TaskContext
from archon.api.common.v1 import failure_pb2
from archon.client import Client, RunHandle, answer_text
from archon.errors import InvalidArgument
from archon.registry import Tool
from archon.types import Run, TaskState
from archon_mesh.planning.wire import task_from_proto
from archon_mesh.workflows import Workflow, WorkflowFolder, load_workflow
from archon_mesh.workflows.record import record
from archon_mesh.workflows.role import REFERENCE_KEY, ROLE, goal_of, handle
from tests.fixtures.mesh import Mesh
from tests.fixtures.waiting import eventually
from tests.integration.services.orchestrator.troupe import Troupe, durable, of

COMPLETED = TaskState.COMPLETED
FAILED = TaskState.FAILED

ROOMS = """
name: rooms
version: 3
description: Visits the rooms of a house
parameters:
  rooms: {type: list}
steps:
  - role: porter
    task: "{{ rooms | tojson }}"
    save_as: found
  - for_each: "{{ found }}"
    as: room
    save_as: seen
    steps:
      - {role: porter, task: "open {{ room }}", save_as: opened}
      - {role: porter, task: "{{ opened }} and enter"}
  - if: "{{ seen | length > 1 }}"
    then: [{role: porter, task: "{{ seen | join(', ') }}"}]
    else: [{role: porter, task: "only {{ seen[0] }}"}]
"""


def written(folder: Path, text: str) -> Workflow:
    path = folder / "main.yaml"
    path.write_text(text)
    return load_workflow(path, WorkflowFolder(folder).find)


async def submit(client: Client, workflow: Workflow, roles: list[str], **arguments: Any) -> RunHandle:
    metadata = {REFERENCE_KEY: workflow.reference}
    goal = goal_of(workflow, arguments)
    return await client.submit(goal, strategy="plan", planner=ROLE, roles=roles, metadata=metadata)


class House:
    """The role that interprets workflows, and a porter; steps whose task is in `fail` fail once each."""

    def __init__(self) -> None:
        self.worked: list[str] = []
        self.fail: Counter[str] = Counter()

    async def join(self, troupe: Troupe) -> None:
        await troupe(ROLE, handle, tools=[Tool("approve")])
        await troupe("porter", self.work, tools=[Tool("count", input_schema_json='{"type": "object"}')])

    async def work(self, task: TaskContext) -> str:
        self.worked.append(task.step_id)
        if self.fail[task.text]:
            self.fail[task.text] -= 1
            raise InvalidArgument(f"cannot {task.text}")
        return task.tool_args_json or task.text


@pytest.fixture
async def house(troupe: Troupe) -> House:
    joined = House()
    await joined.join(troupe)
    return joined


async def run(mesh: Mesh, workflow: Workflow, **arguments: Any) -> Run:
    handle = await submit(mesh.client, workflow, ["porter", ROLE], **arguments)
    return await handle.result(timeout=20)


async def test_a_loop_over_a_result_and_a_condition(mesh: Mesh, house: House, tmp_path: Path) -> None:
    workflow = written(tmp_path, ROOMS)
    handle = await submit(mesh.client, workflow, ["porter"], rooms=["hall", "attic"])
    done = await handle.result(timeout=20)
    assert (done.state, done.proto.failure.message) == (COMPLETED, "")
    assert answer_text(done) == "open hall and enter, open attic and enter"
    events = await durable(handle)
    assert of(events, "submitted")[0].submitted.metadata[REFERENCE_KEY] == "rooms@3"
    assert json.loads(done.proto.plan.context_json) == {"workflow": "rooms@3"}
    assert Counter(house.worked).most_common(1)[0][1] == 1
    assert [event.planned.expansion for event in of(events, "planned")][:2] == [False, True]
    assert answer_text(await run(mesh, workflow, rooms=["cellar"])) == "only open cellar and enter"


async def test_an_error_branch_replaces_a_failed_step(mesh: Mesh, house: House, tmp_path: Path) -> None:
    text = (
        "name: x\nsteps:\n- {role: porter, task: book, save_as: b, on_error: {retry: 1, steps: "
        "[{role: porter, task: 'undo {{ error.message }}'}]}}\n- {role: porter, task: 'end {{ b }}'}"
    )
    workflow = written(tmp_path, text)
    house.fail["book"] = 1
    assert answer_text(await run(mesh, workflow)) == "end book"
    assert house.worked == ["b", "b~2", "step-2"]
    house.fail["book"] = 2
    done = await run(mesh, workflow)
    assert done.state == COMPLETED
    assert answer_text(done).endswith("end undo cannot book")


async def test_a_step_that_fails_for_good_fails_the_run(mesh: Mesh, house: House, tmp_path: Path) -> None:
    workflow = written(tmp_path, "name: x\nsteps:\n- {role: porter, task: book}\n- {role: porter, task: end}")
    house.fail["book"] = 3
    done = await run(mesh, workflow)
    assert (done.state, done.proto.failure.reason) == (FAILED, failure_pb2.ERROR_REASON_PLAN_FAILED)
    assert done.proto.failure.message == "workflow x@1: step step-1 failed: cannot book"


async def test_a_template_without_end_fails_its_run_alone(mesh: Mesh, house: House, tmp_path: Path) -> None:
    text = 'name: endless\nsteps: [{id: count, role: porter, task: "{{ range(10 ** 12) | list | length }}"}]'
    endless = await submit(mesh.client, written(tmp_path, text), ["porter"])
    assert answer_text(await run(mesh, written(tmp_path, ROOMS), rooms=["cellar"])) == "only open cellar and enter"
    failed = await endless.result(timeout=60)
    assert failed.state == FAILED
    assert "workflow endless@1, step count: the template takes more than 256 MiB" in failed.proto.failure.message


async def test_a_tool_gets_its_arguments_with_their_types(mesh: Mesh, house: House, tmp_path: Path) -> None:
    text = (
        'name: x\nsteps:\n- {role: porter, task: \'[1, {"a": "{b}"}]\', save_as: l}\n'
        "- {tool: count, args: {items: '{{ l }}', n: '{{ l | length }}', text: 'of {l} {{ l[0] }}'}}"
    )
    done = await run(mesh, written(tmp_path, text))
    assert json.loads(answer_text(done)) == {"items": [1, {"a": "{b}"}], "n": 2, "text": "of {l} 1"}


async def test_a_mesh_without_the_tool_is_a_typed_failure(mesh: Mesh, house: House, tmp_path: Path) -> None:
    done = await run(mesh, written(tmp_path, "name: x\nsteps: [{tool: cuont}]"))
    assert done.state == FAILED
    assert "cannot be executed by this mesh" in done.proto.failure.message
    assert "cuont" in done.proto.failure.message
    assert house.worked == []


@pytest.mark.parametrize(
    ("decision", "instead", "answer"),
    [("approve", "", "open approved"), ("modify", "the door", "open the door"), ("reject", "", "")],
)
async def test_an_approval_waits_for_a_person(
    mesh: Mesh, house: House, tmp_path: Path, decision: str, instead: str, answer: str
) -> None:
    text = "name: x\nsteps:\n- {approve: 'Open?', save_as: what}\n- {role: porter, task: 'open {{ what }}'}"
    handle = await submit(mesh.client, written(tmp_path, text), ["porter", ROLE])

    async def asks() -> bool:
        return bool((await mesh.client.get(handle.run_id)).questions)

    await eventually(asks)
    (asked,) = (await mesh.client.get(handle.run_id)).questions
    assert (asked.prompt[0].text, asked.is_approval) == ("Open?", True)
    assert asked.expire_time > asked.create_time
    assert house.worked == []
    await mesh.client.respond(handle.run_id, asked.input_id, instead, decision=decision)
    done = await handle.result(timeout=20)
    if not answer:
        assert done.state == FAILED
        assert "rejected by anonymous: Open?" in done.proto.failure.message
    else:
        assert answer_text(done) == answer
    assert house.worked == (["step-2"] if answer else [])


async def test_an_approval_without_an_answer_has_its_default(mesh: Mesh, house: House, tmp_path: Path) -> None:
    text = (
        "name: x\nsteps:\n- {approve: 'Open?', timeout: 0.3, on_timeout: default, default: reject, on_error: continue}"
        "\n- {role: porter, task: open}"
    )
    done = await run(mesh, written(tmp_path, text))
    assert answer_text(done) == "open"


@pytest.mark.slow
@pytest.mark.liveness
@pytest.mark.parametrize("victim", ["orchestrator", "workflow"])
async def test_a_killed_process_repeats_no_step(own_mesh: Mesh, tmp_path: Path, victim: str) -> None:
    mesh, module = own_mesh, "tests.fixtures.workflow_agent"
    role = await mesh.agent_process(ROLE, module=module)
    await mesh.agent_process("porter", module=module, delay=0.4)
    handle = await submit(mesh.client, written(tmp_path, ROOMS), ["porter"], rooms=["hall", "attic", "cellar"])

    async def in_the_loop() -> bool:
        lines = mesh.ledger.read_text() if mesh.ledger.exists() else ""
        return "begin porter seen-1/" in lines

    await eventually(in_the_loop, 20.0)
    process = mesh.orchestrator if victim == "orchestrator" else role
    await process.kill()
    await process.start()
    done = await handle.result(timeout=60)
    assert done.state == COMPLETED
    assert answer_text(done) == "open hall and enter, open attic and enter, open cellar and enter"
    ended = Counter(line.split()[2] for line in mesh.ledger.read_text().splitlines() if line.startswith("end"))
    assert len(ended) == 8
    assert set(ended.values()) == {1}, "no step is done again"


async def test_an_edited_file_changes_no_run_in_progress(mesh: Mesh, house: House, tmp_path: Path) -> None:
    workflow = written(
        tmp_path, "name: x\nsteps:\n- {role: porter, task: a, save_as: a}\n- {role: porter, task: 'b {{ a }}'}"
    )
    began, go_on = asyncio.Event(), asyncio.Event()
    work = house.work

    async def slowly(task: TaskContext) -> str:
        began.set()
        async with asyncio.timeout(20):
            await go_on.wait()
        return await work(task)

    house.work = slowly  # type: ignore[method-assign]
    handle = await submit(mesh.client, workflow, ["porter", ROLE])
    written(tmp_path, "name: x\nsteps: [{role: porter, task: other}]")
    go_on.set()
    assert answer_text(await handle.result(timeout=20)) == "b a"


async def test_a_recorded_workflow_runs_again(mesh: Mesh, troupe: Troupe, house: House, tmp_path: Path) -> None:
    steps = [
        {"id": "1", "description": "count", "tool_name": "count", "tool_args": {"city": "Rome", "nights": 3}},
        {"id": "2", "description": "write it up", "role": "porter", "dependencies": ["1"]},
        {
            "id": "3",
            "description": "",
            "tool_name": "count",
            "tool_args": {"of": "{1.city}"},
            "dependencies": ["2", "1"],
        },
    ]

    async def plan(task: TaskContext) -> str:
        return json.dumps({"goal": task.text, "subtasks": steps})

    await troupe("scribe", plan)
    handle = await mesh.client.submit("3 nights in Rome", strategy="plan", planner="scribe", roles=["porter"])
    first = await handle.result(timeout=20)
    assert answer_text(first) == '{"of":"Rome"}'
    recording = record(task_from_proto(first.proto.plan, "3 nights in Rome"), "nights")
    workflow = written(tmp_path, recording.to_yaml())
    assert list(workflow.parameters) == ["city", "nights"]
    assert answer_text(await run(mesh, workflow)) == '{"of":"Rome"}'
    assert answer_text(await run(mesh, workflow, city="Oslo")) == '{"of":"Oslo"}'
