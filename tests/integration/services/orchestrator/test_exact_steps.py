"""Steps with tools in a mesh: results keep their types, arguments are never made up, and nothing to do is done."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pytest

from archon.agent import TaskContext
from archon.client import answer_text
from archon.registry import Tool
from archon.types import TaskState
from archon_mesh.agent import Agent
from archon_mesh.llm import ScriptedModel
from archon_mesh.node.handler import agent_handler
from archon_mesh.tools import tool
from archon_mesh.workflows import WorkflowFolder, load_workflow
from archon_mesh.workflows.role import NOTHING, NOTHING_DONE, ROLE, goal_of, handle
from tests.fixtures.mesh import Mesh
from tests.integration.services.orchestrator.troupe import Troupe
from tests.unit.mesh.workflows.test_exact_steps import VALUES

COMPLETED, FAILED = TaskState.COMPLETED, TaskState.FAILED
ANY = json.dumps({"type": "object"})


class Box:
    """A role with tools, whose model must not be asked, and the role that interprets workflows."""

    def __init__(self) -> None:
        self.role = f"box-{uuid.uuid4().hex[:6]}"
        self.kept: list[Any] = []
        self.model = ScriptedModel(["the model wrote this"] * 50)

    async def join(self, troupe: Troupe) -> None:
        @tool
        def pick(number: int) -> Any:
            """Gives a value."""
            return VALUES[number]

        @tool
        def take(text: str) -> str:
            """Takes a text."""
            self.kept.append(text)
            return f"taken {text}"

        @tool
        def keep(value: Any = None) -> str:
            """Takes any value."""
            self.kept.append(value)
            return "kept"

        @tool
        def nothing() -> str:
            """Returns nothing."""
            return ""

        tools = [pick, take, keep, nothing]
        agent = Agent("box", tools=tools, model=self.model)
        await troupe(self.role, agent_handler(agent), tools=[Tool(each.name, input_schema_json=ANY) for each in tools])
        await troupe(ROLE, handle, tools=[Tool("approve"), Tool(NOTHING, input_schema_json=ANY)])

    async def run(self, mesh: Mesh, folder: Path, steps: str) -> tuple[TaskState, str]:
        """Returns the final state of a run of a workflow, and its answer or failure."""
        path = folder / "w.yaml"
        path.write_text(f"name: w\n{steps}")
        workflow = load_workflow(path, WorkflowFolder(folder).find)
        handle = await mesh.client.submit(goal_of(workflow, {}), strategy="plan", planner=ROLE, roles=[self.role, ROLE])
        run = await handle.result(timeout=30)
        return run.state, answer_text(run) if run.state == COMPLETED else run.proto.failure.message


@pytest.fixture
async def box(troupe: Troupe) -> Box:
    joined = Box()
    await joined.join(troupe)
    return joined


async def test_results_of_tools_reach_the_next_step_as_they_are(mesh: Mesh, box: Box, tmp_path: Path) -> None:
    pairs = (
        f"- {{tool: pick, args: {{number: {number}}}, save_as: v{number}}}\n"
        f"- {{tool: keep, args: {{value: '{{{{ v{number} }}}}'}}}}\n"
        for number in range(len(VALUES))
    )
    assert await box.run(mesh, tmp_path, "steps:\n" + "".join(pairs)) == (COMPLETED, "kept")
    assert [(value, type(value)) for value in box.kept] == [(value, type(value)) for value in VALUES]
    assert box.model.requests == []


async def test_arguments_that_do_not_fit_fail_the_step(mesh: Mesh, box: Box, tmp_path: Path) -> None:
    state, message = await box.run(mesh, tmp_path, "steps:\n- {tool: take, args: {text: 7}}\n")
    assert state == FAILED
    assert "the arguments do not fit the tool take" in message
    assert (box.kept, box.model.requests) == ([], [])


async def test_a_tool_without_arguments_and_output_has_an_empty_result(mesh: Mesh, box: Box, tmp_path: Path) -> None:
    steps = (
        "steps:\n- {tool: nothing, save_as: hits}\n"
        "- {if: '{{ hits }}', then: [{tool: take, args: {text: some}}], else: [{tool: take, args: {text: none}}]}\n"
    )
    assert await box.run(mesh, tmp_path, steps) == (COMPLETED, "taken none")
    assert box.model.requests == []


async def test_a_workflow_with_nothing_to_do_completes(mesh: Mesh, box: Box, tmp_path: Path) -> None:
    steps = "parameters: {all: {type: list, default: []}}\nsteps:\n- {for_each: '{{ all }}', steps: [{tool: keep}]}\n"
    assert await box.run(mesh, tmp_path, steps) == (COMPLETED, NOTHING_DONE)


async def test_a_condition_on_another_text_fails_its_step(mesh: Mesh, box: Box, tmp_path: Path) -> None:
    steps = "steps:\n- {tool: take, args: {text: Rome}, save_as: it}\n- {if: '{{ it }}', then: [{tool: keep}]}\n"
    state, message = await box.run(mesh, tmp_path, steps)
    assert state == FAILED
    assert "step step-2: the text 'taken Rome' is neither true nor false" in message


async def test_texts_of_agents_without_types_are_read_as_before(mesh: Mesh, troupe: Troupe, tmp_path: Path) -> None:
    async def work(task: TaskContext) -> str:
        return "[1, 2]" if task.allowed_tools == ("list",) else task.tool_args_json

    role = f"plain-{uuid.uuid4().hex[:6]}"
    await troupe(role, work, tools=[Tool(name, input_schema_json=ANY) for name in ("list", "show")])
    await troupe(ROLE, handle, tools=[Tool("approve")])
    plain = Box()
    plain.role = role
    steps = "steps:\n- {tool: list, save_as: it}\n- {tool: show, args: {n: '{{ it | length }}'}}\n"
    assert await plain.run(mesh, tmp_path, steps) == (COMPLETED, '{"n":2}')
