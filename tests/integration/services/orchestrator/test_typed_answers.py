"""Typed answers through a mesh: of roles, for those who depend on them, for callers, and of steps of plans."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from archon.agent import AgentSettings, Answer, TaskContext
from archon.api.common.v1 import failure_pb2
from archon.client import answer_text, answer_value
from archon.errors import FailedPrecondition, InvalidArgument, OutputMismatch
from archon.failure_kinds import MODEL_FORMAT
from archon.memory import MemoryGraphClient
from archon.registry import Registration, Tool
from archon.types import Run, TaskState
from archon.types.part import json_part
from archon_mesh.agent import Agent
from archon_mesh.core.messages import ToolCall
from archon_mesh.llm import ScriptedModel
from archon_mesh.node import RemoteAgent, Role, agent_server
from archon_mesh.tools import tool
from archon_mesh.workflows import load_workflow
from archon_mesh.workflows.role import ROLE, goal_of, handle
from archon_services.cli.render.answer import shown_answer
from tests.fixtures.mesh import Mesh
from tests.fixtures.waiting import eventually
from tests.integration.services.orchestrator.troupe import Troupe, durable, of

COMPLETED = TaskState.COMPLETED


class City(BaseModel):
    name: str
    people: int


ROME = '{"name": "Rome", "people": 3}'
NUMBERS = {"type": "array", "items": {"type": "integer"}}


@tool
def count(up_to: int) -> str:
    """Counts."""
    return json.dumps([*range(1, up_to + 1)])


class Cast:
    """Serves agents as roles, each with a name of its own."""

    def __init__(self, mesh: Mesh, stack: AsyncExitStack) -> None:
        self._mesh = mesh
        self._stack = stack
        self.models: dict[str, ScriptedModel] = {}

    async def __call__(self, *replies: Any, tools: Any = (), output: Any = City, **fields: Any) -> str:
        name = f"city-{uuid.uuid4().hex[:6]}"
        self.models[name] = ScriptedModel(replies)
        role = Role(name, "You know cities.", max_tasks=2, **fields)
        agent = Agent(name, model=self.models[name], tools=tools, output=output, system_prompt=role.system_prompt)
        settings = AgentSettings(registry=self._mesh.registry.address)
        server = agent_server(role, agent, settings, memory="")
        await server.start()
        self._stack.push_async_callback(server.stop, 0.0)

        async def known() -> bool:
            return bool(server._sessions)

        await eventually(known)
        return name


@pytest.fixture
async def cast(mesh: Mesh) -> AsyncIterator[Cast]:
    async with AsyncExitStack() as stack:
        yield Cast(mesh, stack)


async def test_answer_of_a_role_is_a_json_part(mesh: Mesh, cast: Cast) -> None:
    role = await cast(f"It is {ROME}.")
    (instance,) = await mesh.directory.list_instances(role)
    assert json.loads(instance.output_schema_json) == City.model_json_schema()
    handle = await mesh.client.submit("a city", roles=[role], wait=10)
    (answer,) = handle.run.answers
    assert [(part.data_json, part.media_type) for part in answer.parts] == [
        ('{"name":"Rome","people":3}', "application/json")
    ]
    assert answer_text(handle.run) == '{"name":"Rome","people":3}'
    assert answer_value(handle.run) == {"name": "Rome", "people": 3}
    assert answer_value(handle.run, City) == City(name="Rome", people=3)
    assert shown_answer(handle.run.proto) == '{\n  "name": "Rome",\n  "people": 3\n}'


async def test_client_returns_an_object(mesh: Mesh, cast: Cast) -> None:
    role = await cast(ROME, ROME, ROME)
    assert await mesh.client.run("a city", roles=[role], output=City) == City(name="Rome", people=3)
    assert await mesh.client.run("a city", roles=[role], output={"type": "object"}) == {"name": "Rome", "people": 3}
    assert await mesh.client.run("a city", roles=[role]) == '{"name":"Rome","people":3}'


async def test_client_reads_json_in_a_text(mesh: Mesh, troupe: Troupe) -> None:
    role = f"plain-{uuid.uuid4().hex[:6]}"
    await troupe(role, lambda task: ROME if "JSON" in task.text else "Rome")
    assert await mesh.client.run("as JSON", roles=[role], output=City) == City(name="Rome", people=3)
    with pytest.raises(OutputMismatch) as raised:
        await mesh.client.run("in words", roles=[role], output=City)
    assert raised.value.text == "Rome"
    with pytest.raises(InvalidArgument, match="invalid output"):
        await mesh.client.run("?", roles=[role], output=5)


async def test_value_of_several_answers_is_refused(mesh: Mesh, cast: Cast) -> None:
    first, second = await cast(ROME), await cast(ROME)
    handle = await mesh.client.submit("cities", roles=[first, second], wait=10)
    with pytest.raises(FailedPrecondition, match="2 answers"):
        answer_value(handle.run)


async def test_second_mismatch_fails_the_run(mesh: Mesh, cast: Cast) -> None:
    role = await cast("Rome", "Rome!")
    with pytest.raises(OutputMismatch, match="does not match its output type") as raised:
        await mesh.client.run("a city", roles=[role], output=City)
    assert (raised.value.kind, raised.value.text) == (MODEL_FORMAT, "Rome!")
    assert raised.value.field_violations
    assert len(cast.models[role].requests) == 2


async def test_dependants_and_shared_memory_receive_json(mesh: Mesh, cast: Cast, troupe: Troupe) -> None:
    role = await cast(ROME)
    seen: list[str] = []

    async def read(task: TaskContext) -> str:
        seen.extend(item.text for item in task.context)
        return "done"

    reader = f"reader-{uuid.uuid4().hex[:6]}"
    await troupe(reader, read, depends_on=[role])
    session = uuid.uuid4().hex
    await mesh.client.submit("a city", roles=[role, reader], session_id=session, wait=10)
    assert seen == ['{"name":"Rome","people":3}']

    async with MemoryGraphClient(mesh.memory.address, session) as memory:

        async def stored() -> bool:
            return [item.content for item in await memory.pull_for(reader)] == seen

        await eventually(stored)


async def test_remote_agent_gives_json_to_its_caller(mesh: Mesh, cast: Cast) -> None:
    role = await cast(ROME)
    model = ScriptedModel([ToolCall("1", role, '{"task": "a city"}'), "Rome has 3."])
    remote = RemoteAgent(role, orchestrator=mesh.orchestrator.address)
    async with Agent("caller", model=model, sub_agents=[remote]) as caller:
        assert await caller.run_async("?") == "Rome has 3."
    assert model.requests[1].messages[-1].content == '{"name":"Rome","people":3}'


async def test_history_of_a_stateful_role_has_the_answer(mesh: Mesh, cast: Cast) -> None:
    role = await cast(ROME, '{"name": "Oslo", "people": 1}', stateful=True)
    session = uuid.uuid4().hex
    for _ in range(2):
        await mesh.client.run("a city", roles=[role], session_id=session, output=City)
    texts = [message.content for message in cast.models[role].requests[1].messages[2:]]
    assert texts == ["a city", '{"name":"Rome","people":3}', "a city"]


@pytest.mark.parametrize(
    ("returned", "text"),
    [
        (City(name="Rome", people=3), '{"name":"Rome","people":3}'),
        ({"name": "Rome", "people": 3}, '{"name":"Rome","people":3}'),
        (ROME, ROME),
        (Answer(parts=[json_part(ROME)]), ROME),
    ],
    ids=["object", "mapping", "text", "answer"],
)
@pytest.mark.parametrize("is_async", [False, True])
async def test_handler_returns_an_object(mesh: Mesh, troupe: Troupe, returned: Any, text: str, is_async: bool) -> None:
    async def later(task: TaskContext) -> Any:
        return returned

    role = f"typed-{uuid.uuid4().hex[:6]}"
    await troupe(role, later if is_async else lambda task: returned, output=City)
    assert await mesh.client.run("a city", roles=[role]) == text
    assert await mesh.client.run("a city", roles=[role], output=City) == City(name="Rome", people=3)


@pytest.mark.parametrize("returned", ["Rome", {"name": "Rome"}, [1]], ids=repr)
async def test_handler_that_returns_something_else_fails(mesh: Mesh, troupe: Troupe, returned: Any) -> None:
    role = f"typed-{uuid.uuid4().hex[:6]}"
    await troupe(role, lambda task: returned, output=City)
    with pytest.raises(OutputMismatch):
        await mesh.client.run("a city", roles=[role])


async def test_handler_answers_a_step_with_the_schema_of_the_step(mesh: Mesh, troupe: Troupe) -> None:
    role = f"typed-{uuid.uuid4().hex[:6]}"
    await troupe(role, lambda task: [1, 2] if task.output_schema_json else {"name": "Rome", "people": 3}, output=City)
    run = await planned(mesh, troupe, [role], step("a", output_schema=NUMBERS))
    assert answer_value(run) == [1, 2]


# Steps of plans


async def planned(mesh: Mesh, troupe: Troupe, roles: list[str], *steps: dict[str, Any]) -> Run:
    planner = f"planner-{uuid.uuid4().hex[:6]}"
    plan = json.dumps({"goal": "a trip", "subtasks": steps})
    await troupe(planner, lambda task: plan)
    handle = await mesh.client.submit("a trip", strategy="plan", planner=planner, roles=roles, wait=15)
    return handle.run


def step(id: str, *dependencies: str, **fields: Any) -> dict[str, Any]:
    return {"id": id, "description": f"do {id}", "dependencies": dependencies, **fields}


async def test_step_is_answered_with_its_own_schema(mesh: Mesh, cast: Cast, troupe: Troupe) -> None:
    role = await cast("one and two", '{"answer": [1, 2]}')
    run = await planned(mesh, troupe, [role], step("a", output_schema=NUMBERS))
    assert run.state == COMPLETED
    assert answer_value(run, list[int]) == [1, 2]
    assert json.loads(run.proto.plan.steps[0].output_schema_json) == NUMBERS
    assert len(cast.models[role].requests) == 2


async def test_step_without_a_schema_has_that_of_its_role(mesh: Mesh, cast: Cast, troupe: Troupe) -> None:
    role = await cast(ROME, output=City)
    run = await planned(mesh, troupe, [role], step("a"))
    assert answer_value(run, City) == City(name="Rome", people=3)


async def test_step_with_a_tool_gives_what_the_tool_returns(mesh: Mesh, cast: Cast, troupe: Troupe) -> None:
    role = await cast(tools=[count])
    arguments = {"up_to": 2}
    run = await planned(mesh, troupe, [role], step("a", tool_name="count", tool_args=arguments, output_schema=NUMBERS))
    assert (run.state, answer_value(run)) == (COMPLETED, [1, 2])
    run = await planned(mesh, troupe, [role], step("a", tool_name="count", tool_args=arguments))
    assert (run.state, answer_text(run)) == (COMPLETED, "[1, 2]")


async def test_result_of_a_step_is_checked_by_the_orchestrator(mesh: Mesh, troupe: Troupe) -> None:
    told: list[str] = []

    async def work(task: TaskContext) -> Answer | str:
        told.append(task.refusal)
        assert json.loads(task.output_schema_json) == NUMBERS
        return Answer(parts=[json_part("[1, 2]")]) if task.refusal else '["one"]'

    role = f"worker-{uuid.uuid4().hex[:6]}"
    await troupe(role, work)
    run = await planned(mesh, troupe, [role], step("a", output_schema=NUMBERS))
    assert answer_value(run, list[int]) == [1, 2]
    assert told[0] == ""
    assert "0: 'one' is not of type 'integer'" in told[1]


@pytest.mark.parametrize("result", ["[]", "null", '{"error": "none"}'])
async def test_empty_value_that_matches_is_a_result(mesh: Mesh, troupe: Troupe, result: str) -> None:
    role = f"worker-{uuid.uuid4().hex[:6]}"
    await troupe(role, lambda task: result)
    run = await planned(mesh, troupe, [role], step("a", output_schema={"type": ["array", "null", "object"]}))
    assert (run.state, answer_text(run)) == (COMPLETED, result)


async def test_templates_read_fields_of_a_typed_result(mesh: Mesh, cast: Cast, troupe: Troupe) -> None:
    role = await cast(ROME)
    got: list[str] = []

    async def work(task: TaskContext) -> str:
        got.append(task.tool_args_json)
        return "booked"

    worker = f"worker-{uuid.uuid4().hex[:6]}"
    await troupe(worker, work, tools=[Tool("book")])
    steps = step("a", role=role), step("b", "a", role=worker, tool_name="book", tool_args={"in": "{a.name}"})
    run = await planned(mesh, troupe, [role, worker], *steps)
    assert run.state == COMPLETED
    assert got == ['{"in":"Rome"}']


WORKFLOW = """
name: numbers
steps:
  - role: ROLE
    task: "Two numbers."
    output: {type: array, items: {type: integer}}
    save_as: numbers
  - for_each: "{{ numbers }}"
    as: number
    steps: [{role: counter, task: "count {{ number }}"}]
"""


async def test_workflow_reads_a_typed_result_as_a_value(mesh: Mesh, cast: Cast, troupe: Troupe, tmp_path: Path) -> None:
    role = await cast("one and two", "[1, 2]")
    counted: list[str] = []

    async def work(task: TaskContext) -> str:
        counted.append(task.text)
        return "done"

    await troupe(ROLE, handle)
    await troupe("counter", work)
    (tmp_path / "numbers.yaml").write_text(WORKFLOW.replace("ROLE", role))
    workflow = load_workflow(tmp_path / "numbers.yaml")
    goal = goal_of(workflow, {})
    run = await mesh.client.submit(goal, strategy="plan", planner=ROLE, roles=[role, "counter"])
    events = await durable(run)
    assert sorted(counted) == ["count 1", "count 2"]
    assert of(events, "planned")


@pytest.mark.parametrize(
    "schema", ['{"description": "' + "x" * 33_000 + '"}', "[]", "{broken"], ids=lambda text: text[:9]
)
async def test_schema_that_is_too_large_is_refused_by_the_registry(mesh: Mesh, schema: str) -> None:
    with pytest.raises(InvalidArgument, match="output_schema_json"):
        await mesh.directory.register(Registration("large", address="127.0.0.1:1", output_schema_json=schema))


def test_reason_is_part_of_the_contract() -> None:
    assert failure_pb2.ErrorReason.Value("ERROR_REASON_OUTPUT_MISMATCH") == failure_pb2.ERROR_REASON_OUTPUT_MISMATCH
