"""Workflows that an agent executes in this process, and planners that answer with one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from archon.errors import FailedPrecondition, InvalidArgument
from archon_mesh.agent import Agent
from archon_mesh.llm import ScriptedModel
from archon_mesh.planning import MalformedPlan, PlanEvent, PlanExecutor, PlanFailed, Planner, TaskMode
from archon_mesh.planning.plan_template import asked_template, fitting_template
from archon_mesh.tools import ToolResult, tool
from archon_mesh.tools.people import PersonQuestion, answered_by
from archon_mesh.workflows import ApprovalTool, Workflow, WorkflowPlanner, WorkflowTemplate
from tests.unit.mesh.planning.workers import FunctionWorker, no_sleep
from tests.unit.mesh.workflows.files import TRIP, load


@tool
def search(to: str) -> list[dict[str, Any]]:
    """Searches flights."""
    return [{"number": "A1", "to": to}, {"number": "B2", "to": to}]


def writer(message: str) -> str:
    return message.split("\n")[0].upper()


async def executed(workflow: Workflow, worker: FunctionWorker, **arguments: Any) -> tuple[str | None, list[str]]:
    """Executes a workflow. Returns its answer, and the events in short."""
    reports: list[str] = []

    def on_event(event: PlanEvent) -> None:
        reports.append(f"{event.kind} {event.subtask.id if event.subtask else event.message}".strip())

    planner = WorkflowPlanner(workflow, arguments)
    executor = PlanExecutor(worker, planner=planner, on_event=on_event, sleep=no_sleep)
    task = await executor.execute(await planner.create_plan("go"))
    assert executor.replans == 0
    return planner.answer(task), reports


async def test_an_agent_executes_a_workflow(tmp_path: Path) -> None:
    writer_agent = Agent("writer", model=ScriptedModel(["one", "two", "both"]))
    async with Agent("clerk", tools=[search], sub_agents=[writer_agent]) as agent:
        planner = WorkflowPlanner(load(tmp_path), {"city": "Rome"})
        answer = await agent.run_task("Book a trip", planner=planner)
        assert answer == "both"
        assert agent.planned_run is not None
        outcome = agent.planned_run.outcome
        assert outcome is not None
        assert outcome.mode is not TaskMode.DIRECT
        assert outcome.task is not None
        assert outcome.task.context["workflow"] == "trip@2"


async def test_a_loop_and_a_condition_are_expanded(tmp_path: Path) -> None:
    worker = FunctionWorker([search], roles={"writer": writer})
    answer, reports = await executed(load(tmp_path), worker, city="Rome")
    assert answer == "COMPARE: DESCRIBE A1; DESCRIBE B2"
    assert reports.count("expanded texts") == 1
    assert [line for line in reports if line.startswith("subtask_started")] == [
        "subtask_started flights",
        "subtask_started texts-1/step-1",
        "subtask_started texts-2/step-1",
        "subtask_started step-3/step-1",
    ]


async def test_failed_steps_have_their_branches(tmp_path: Path) -> None:
    text = (
        "name: x\nsteps:\n- {tool: book, args: {name: Grand}, save_as: b, on_error: {retry: 1, steps: "
        "[{role: writer, task: 'instead: {{ error.message }}'}]}}\n- {role: writer, task: '{{ b }}!'}"
    )
    calls: list[str] = []

    @tool
    def book(name: str) -> ToolResult:
        """Books a room."""
        calls.append(name)
        return ToolResult.error("booked out")

    worker = FunctionWorker([book], roles={"writer": writer})
    answer, reports = await executed(load(tmp_path, text), worker)
    assert answer == "INSTEAD: BOOKED OUT!"
    assert calls == ["Grand"] * 6, "each of two attempts of the workflow is tried three times"
    expansions = [line for line in reports if line.startswith("expanded")]
    assert expansions == ["expanded b", "expanded b~2", "expanded step-2"]


async def test_without_a_branch_a_failed_step_fails_the_plan(tmp_path: Path) -> None:
    def broken(message: str) -> str:
        raise InvalidArgument("cannot")

    worker = FunctionWorker(roles={"writer": broken})
    with pytest.raises(PlanFailed, match=r"workflow x@1: step step-1 failed: cannot"):
        await executed(load(tmp_path, "name: x\nsteps: [{role: writer, task: go}, {role: writer, task: end}]"), worker)


async def test_a_template_that_fails_fails_the_plan(tmp_path: Path) -> None:
    worker = FunctionWorker(roles={"writer": lambda message: "no list"})
    text = "name: x\nsteps:\n- {role: writer, task: go, save_as: l}\n- {for_each: '{{ l }}', steps: [{task: x}]}"
    with pytest.raises(PlanFailed, match="the value is str, not a list"):
        await executed(load(tmp_path, text), worker)


@pytest.mark.parametrize(
    ("answer", "expected"), [("approve", "SAID APPROVED"), ("reject", "SAID STOP"), ("Later", "SAID LATER")]
)
async def test_an_approval_asks_by_its_tool(tmp_path: Path, answer: str, expected: str) -> None:
    asked: list[str] = []

    async def ask(question: PersonQuestion) -> str:
        asked.append(question.text)
        return answer

    text = "name: x\nsteps:\n- {approve: 'Go on?', on_error: {steps: [{role: writer, task: stop}]}, save_as: a}\n"
    worker = FunctionWorker([ApprovalTool()], roles={"writer": writer})
    with answered_by(ask):
        said, _ = await executed(load(tmp_path, text + "- {role: writer, task: 'said {{ a }}'}"), worker)
    assert said == expected
    assert set(asked) == {"Go on?"}


# Planners that answer with a template --------------------------------------------------------------------------------


async def test_a_model_may_answer_with_a_template(tmp_path: Path) -> None:
    template = WorkflowTemplate(load(tmp_path))
    model = ScriptedModel([json.dumps({"template": "trip", "arguments": {"city": "Rome"}})])
    planner = Planner(model, roles={"writer": "Writes."}, templates=[template])
    task = await planner.create_plan("I want to see Rome", [search])
    assert [subtask.id for subtask in task.subtasks] == ["flights", "texts", "step-3"]
    asked = json.loads(model.requests[0].messages[-1].content)
    assert asked["templates"][0]["name"] == "trip"
    assert asked["templates"][0]["parameters"]["required"] == ["city"]
    executor = PlanExecutor(FunctionWorker([search], roles={"writer": writer}), planner=planner, sleep=no_sleep)
    done = await executor.execute(task)
    assert planner.answer(done) == "COMPARE: DESCRIBE A1; DESCRIBE B2"


async def test_a_template_with_wrong_arguments_is_sent_back(tmp_path: Path) -> None:
    replies = ['{"template": "trip", "arguments": {}}', '{"template": "trip", "arguments": {"city": "Rome"}}']
    model = ScriptedModel(replies)
    planner = Planner(model, roles={"writer": "Writes."}, templates=[WorkflowTemplate(load(tmp_path))])
    assert len((await planner.create_plan("I want to see Rome", [search])).subtasks) == 3
    assert "city: is missing" in model.requests[1].messages[-1].content


@pytest.mark.parametrize(
    ("query", "arguments"),
    [
        ("trip city=Rome", {"city": "Rome"}),
        ('Book a trip to a city: city="New York" nights=3', {"city": "New York", "nights": 3}),
        ("Book a trip to a city", None),
        ("Write a poem about a city and the sea, city=Rome", None),
        ("trip to nowhere", None),
        ("", None),
    ],
)
def test_a_query_that_clearly_fits_needs_no_model(tmp_path: Path, query: str, arguments: Any) -> None:
    other = "name: poem\ndescription: Writes a poem about a thing\nsteps: [{task: x}]"
    (tmp_path / "o").mkdir()
    templates = [WorkflowTemplate(load(tmp_path, TRIP)), WorkflowTemplate(load(tmp_path / "o", other))]
    found = fitting_template(query, templates)
    assert (found and found.arguments) == arguments
    assert found is None or found.template.name == "trip"


def test_a_query_may_ask_for_a_template_without_its_arguments(tmp_path: Path) -> None:
    fit = asked_template("Book a trip to a city", [WorkflowTemplate(load(tmp_path, TRIP))])
    assert fit is not None
    assert (fit.template.name, fit.missing) == ("trip", ["city"])


async def test_without_a_model_a_fitting_template_plans(tmp_path: Path) -> None:
    planner = Planner(ScriptedModel([]), roles=["writer"], templates=[WorkflowTemplate(load(tmp_path))])
    task = await planner.create_plan("trip city=Rome", [search])
    assert task.subtasks[0].tool_args == {"to": "Rome"}


async def test_an_agent_uses_a_template_that_fits(tmp_path: Path) -> None:
    template = WorkflowTemplate(
        load(tmp_path, "name: greet\nparameters: {who: {}}\nsteps: [{task: 'Greet {{ who }}'}]")
    )
    async with Agent("clerk", model=ScriptedModel(["Hello."])) as agent:
        assert await agent.run_task("greet who=Ada", templates=[template]) == "Hello."
        assert agent.planned_run is not None
        assert agent.planned_run.outcome is not None
        assert agent.planned_run.outcome.task is not None
        assert agent.planned_run.outcome.task.context["workflow"] == "greet@1"


async def test_another_planner_goes_on_with_the_template(tmp_path: Path) -> None:
    templates = [WorkflowTemplate(load(tmp_path))]
    first = Planner(ScriptedModel([]), roles={"writer": "Writes."}, templates=templates)
    task = await first.create_plan("trip city=Rome", [search])
    listed = task.update_subtask(task.subtasks[0].with_result([{"number": "A1"}]))
    again = Planner(ScriptedModel([]), templates=templates)
    assert "texts-1/step-1" in {each.id for each in (await again.expand(listed, ["texts"], [search])).subtasks}
    with pytest.raises(FailedPrecondition, match="trip@2, which is not there any more"):
        await Planner(ScriptedModel([])).expand(listed, ["texts"], [search])
    with pytest.raises(FailedPrecondition, match="cannot be executed: no tool"):
        await again.expand(listed, ["texts"], [search], faults=["no tool"])


async def test_a_template_is_never_repaired(tmp_path: Path) -> None:
    text = "name: pay\ndescription: Pays\nsteps: [{approve: 'Pay?'}, {tool: pay}]"
    templates = [WorkflowTemplate(load(tmp_path, text))]
    chosen = '{"template": "pay", "arguments": {}}'
    planner = Planner(ScriptedModel([chosen, chosen]), templates=templates)
    with pytest.raises(MalformedPlan, match=r"the template cannot be executed: .*approve"):
        await planner.create_plan("Pay now", [search])
    with pytest.raises(MalformedPlan, match="the template cannot be executed"):
        await Planner(ScriptedModel([chosen, chosen]), templates=templates).create_plan("pay", [search])
