"""Runs with a plan over real processes: the plan, its steps, replans, edits, and the deaths of any process."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from archon.agent import TaskContext
from archon.api.common.v1 import failure_pb2
from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.api.orchestrator.v1 import run_pb2
from archon.client import Client, answer_text
from archon.errors import Aborted, FailedPrecondition, InvalidArgument, UnknownRole
from archon.registry import Tool
from archon.submission import submit_request
from archon.types import PlanStep, Run, TaskState
from tests.fixtures.mesh import Mesh
from tests.fixtures.services import ServiceProcess
from tests.fixtures.waiting import eventually
from tests.integration.services.orchestrator.troupe import Troupe, durable, of

COMPLETED = TaskState.COMPLETED
FAILED = TaskState.FAILED


def step(id: str, *dependencies: str, **fields: Any) -> dict[str, Any]:
    return {"id": id, "description": f"do {id}", "dependencies": dependencies, **fields}


def plan(*steps: dict[str, Any]) -> str:
    return json.dumps({"goal": "a trip", "subtasks": steps})


def name(role: str) -> str:
    return f"{role}-{uuid.uuid4().hex[:6]}"


class Roles:
    """A planner with scripted replies, and a worker that answers with its input, its tool and its context."""

    def __init__(self, *replies: str) -> None:
        self.replies = list(replies)
        self.requests: list[Any] = []
        self.worked: list[str] = []
        self.planner, self.worker = name("planner"), name("worker")
        self.fail: set[str] = set()

    async def join(self, troupe: Troupe) -> None:
        await troupe(self.planner, self.plan)
        await troupe(self.worker, self.work, tools=[Tool("book", description="Books."), Tool("search")])

    async def plan(self, task: TaskContext) -> str:
        request = task.plan_request
        assert request is not None
        self.requests.append(request)
        if request.synthesise:
            return " + ".join(item.text for item in task.context)
        return self.replies.pop(0)

    async def work(self, task: TaskContext) -> str:
        assert task.plan_request is None
        self.worked.append(task.step_id)
        if task.step_id in self.fail:
            raise InvalidArgument(f"{task.step_id} is booked out")
        tools = f"[{','.join(task.allowed_tools)} {task.tool_args_json}]" if task.allowed_tools else ""
        context = ",".join(item.text for item in task.context)
        return f"{task.step_id}{tools}({context})"

    async def run(self, client: Client) -> tuple[Run, list[run_pb2.RunEvent]]:
        handle = await client.submit("a trip", strategy="plan", planner=self.planner, roles=[self.worker], wait=15)
        return handle.run, await durable(handle)


async def edit(client: Client, run: Run, text: str, *, seq: int = 0) -> Run:
    request = pb.EditPlanRequest(run_id=run.run_id, expected_seq=seq or run.proto.plan.change_seq, plan_json=text)
    return Run((await client._stub.EditPlan(request, timeout=15)).run)


async def test_a_plan_is_made_executed_and_shown(mesh: Mesh, troupe: Troupe) -> None:
    roles = Roles(plan(step("flight"), step("hotel", "flight", expected_output="a name"), step("trip", "hotel")))
    await roles.join(troupe)
    run, events = await roles.run(mesh.client)
    assert run.state == COMPLETED
    assert answer_text(run) == "trip(hotel(flight()))"
    assert [(answer.role, answer.step_id) for answer in run.answers] == [(roles.worker, "trip")]
    assert [(task.step_id, task.state) for task in run.tasks] == [
        ("", COMPLETED),
        ("flight", COMPLETED),
        ("hotel", COMPLETED),
        ("trip", COMPLETED),
    ]
    assert list(run.tasks[2].predecessors) == [run.tasks[1].task_id]
    assert run.proto.plan.goal == "a trip"
    assert [(each.step_id, each.role, each.state) for each in run.proto.plan.steps] == [
        (id_, roles.worker, COMPLETED.proto) for id_ in ("flight", "hotel", "trip")
    ]
    (planned,) = of(events, "planned")
    created = [event for event in of(events, "task_state") if event.task_state.step_id]
    assert [event.seq for event in created] == [planned.seq + 1, planned.seq + 2, planned.seq + 3]
    (request,) = roles.requests
    assert [target.role for target in request.targets] == [roles.worker]
    assert [tool.name for tool in request.targets[0].tools] == ["book", "search"]
    assert request.max_steps == 1_000


async def test_independent_steps_run_at_once_and_are_combined(mesh: Mesh, troupe: Troupe) -> None:
    roles = Roles(plan(step("sum"), step("facts")))
    both = asyncio.Barrier(2)
    work = roles.work

    async def together(task: TaskContext) -> str:
        await both.wait()  # a single one would wait for ever
        return await work(task)

    roles.work = together  # type: ignore[method-assign]
    await roles.join(troupe)
    run, _ = await roles.run(mesh.client)
    assert answer_text(run) == "sum() + facts()"
    assert roles.requests[-1].synthesise


async def test_a_step_with_a_tool_gets_its_filled_arguments(mesh: Mesh, troupe: Troupe) -> None:
    booking = step("hotel", "city", tool_name="book", tool_args={"in": "{city}", "for": "{city.nights} nights"})
    roles = Roles(plan(step("city"), booking))
    await roles.join(troupe)
    run, _ = await roles.run(mesh.client)
    arguments = '{"in":"city()","for":"city() nights"}'
    assert answer_text(run) == f"hotel[book {arguments}](city())", "a path that is missing is the whole result"


async def test_a_failed_critical_step_is_replanned_and_the_rest_kept(mesh: Mesh, troupe: Troupe) -> None:
    first = plan(step("flight"), step("hotel", "flight", critical=True), step("trip", "flight", "hotel"))
    second = plan(step("hostel", "flight"), step("trip", "flight", "hostel"))
    roles = Roles(first, second)
    roles.fail = {"hotel"}
    await roles.join(troupe)
    run, events = await roles.run(mesh.client)
    assert answer_text(run) == "trip(flight(),hostel(flight()))"
    assert Counter(roles.worked) == {"flight": 1, "hotel": 1, "hostel": 1, "trip": 1}
    request = roles.requests[1]
    assert (request.revision, request.reason) == (2, "the critical subtask hotel failed")
    assert [(each.step_id, each.state) for each in request.proto.previous.steps[:2]] == [
        ("flight", COMPLETED.proto),
        ("hotel", FAILED.proto),
    ]
    assert request.proto.previous.steps[0].result[0].text == "flight()"
    assert request.proto.previous.steps[1].failure.message == "hotel is booked out"
    assert [event.planned.plan.revision for event in of(events, "planned")] == [1, 2]


async def test_a_fork_continues_the_plan_of_a_failed_run(mesh: Mesh, troupe: Troupe) -> None:
    roles = Roles(plan(step("flight"), step("hotel", "flight", critical=True), step("trip", "hotel")), "no", "no")
    roles.fail = {"hotel"}
    await roles.join(troupe)
    source, _ = await roles.run(mesh.client)
    assert source.state == TaskState.FAILED
    asked = len(roles.requests)
    roles.fail, roles.worked = set(), []
    run = await (await mesh.client.fork(source.run_id)).result(timeout=15)
    assert (run.state, answer_text(run)) == (COMPLETED, "trip(hotel(flight()))")
    assert roles.worked == ["hotel", "trip"]
    assert len(roles.requests) == asked
    assert [(task.step_id, task.attempt) for task in run.tasks] == [("", 0), ("flight", 0), ("hotel", 1), ("trip", 1)]
    roles.replies[:] = [plan(step("walk"))]
    other = await mesh.client.fork(source.run_id, goal="another trip")
    assert answer_text(await other.result(timeout=15)) == "walk()"


async def test_a_planner_that_repeats_its_plan_repeats_no_step(mesh: Mesh, troupe: Troupe) -> None:
    same = plan(step("flight"), step("hotel", "flight", critical=True), step("trip", "flight", "hotel"))
    roles = Roles(same, same)
    roles.fail = {"hotel"}
    work = roles.work

    async def once(task: TaskContext) -> str:
        if roles.worked.count("hotel"):
            roles.fail.clear()
        return await work(task)

    roles.work = once  # type: ignore[method-assign]
    await roles.join(troupe)
    run, _ = await roles.run(mesh.client)
    assert answer_text(run) == "trip(flight(),hotel(flight()))"
    assert roles.worked == ["flight", "hotel", "hotel", "trip"]


async def test_a_reply_with_faults_is_refused_once_with_its_faults(mesh: Mesh, troupe: Troupe) -> None:
    roles = Roles("I cannot plan that.", plan(step("trip")))
    await roles.join(troupe)
    run, _ = await roles.run(mesh.client)
    assert answer_text(run) == "trip()"
    assert list(roles.requests[0].faults) == []
    assert len(roles.requests[1].faults) == 1


async def test_a_refused_result_is_made_again(mesh: Mesh, troupe: Troupe) -> None:
    schema = json.dumps({"type": "object", "required": ["price"]})
    roles = Roles(plan(step("hotel", expected_output=schema)))
    refusals: list[str] = []

    async def work(task: TaskContext) -> str:
        refusals.append(task.refusal)
        return '{"price": 70}' if task.refusal else "the Plaza"

    roles.work = work  # type: ignore[method-assign]
    await roles.join(troupe)
    run, events = await roles.run(mesh.client)
    assert answer_text(run) == '{"price": 70}'
    assert refusals == ["", "the result is not JSON, as the expected output asks for"]
    (retried,) = of(events, "retry")
    assert retried.retry.failure.reason == failure_pb2.ERROR_REASON_RESULT_REFUSED
    assert retried.retry.failure.kind == "model.format"


async def test_a_planner_that_never_plans_fails_the_run(mesh: Mesh, troupe: Troupe) -> None:
    roles = Roles("no", "no", "no")
    await roles.join(troupe)
    run, _ = await roles.run(mesh.client)
    assert (run.state, run.proto.failure.reason) == (FAILED, failure_pb2.ERROR_REASON_PLAN_FAILED)
    assert run.proto.failure.field_violations


async def test_without_a_planner_a_submit_is_refused(mesh: Mesh) -> None:
    with pytest.raises(UnknownRole):
        await mesh.client.submit("x", strategy="plan", planner="absent-planner")
    with pytest.raises(InvalidArgument):
        await mesh.client.submit("x", roles=["designer"], planner="designer")


async def test_a_dry_run_creates_no_run(mesh: Mesh) -> None:
    request = submit_request("x", roles=["requirements", "designer"])
    response = await mesh.client._stub.PlanRun(pb.PlanRunRequest(submit=request), timeout=10)
    assert [task.role for task in response.tasks] == ["requirements", "designer"]
    assert [(edge.upstream, edge.downstream) for edge in response.edges] == [("requirements", "designer")]
    assert not response.plan.steps


async def test_an_edit_replaces_only_what_has_not_begun(mesh: Mesh, troupe: Troupe) -> None:
    roles = Roles(plan(step("slow"), step("next", "slow"), step("last", "next")))
    began, go_on = asyncio.Event(), asyncio.Event()
    work = roles.work

    async def slowly(task: TaskContext) -> str:
        if task.step_id == "slow":
            began.set()
            await go_on.wait()
        return await work(task)

    roles.work = slowly  # type: ignore[method-assign]
    await roles.join(troupe)
    handle = await mesh.client.submit("a trip", strategy="plan", planner=roles.planner, roles=[roles.worker])
    async with asyncio.timeout(15):
        await began.wait()
    run = await mesh.client.get(handle.run_id)
    slow = step("slow")
    with pytest.raises(FailedPrecondition, match="slow"):
        await edit(mesh.client, run, plan({**slow, "description": "do it otherwise"}, step("last", "slow")))
    with pytest.raises(InvalidArgument, match="circle"):
        await edit(mesh.client, run, plan(slow, step("x", "y"), step("y", "x")))
    assert run.plan is not None
    shortcut = PlanStep("shortcut", "do shortcut", dependencies=("slow",))
    edited = await mesh.client.edit_plan(run.run_id, replace(run.plan, steps=(run.plan.steps[0], shortcut)))
    assert edited.plan is not None
    assert [each.step_id for each in edited.plan.steps] == ["slow", "shortcut"]
    with pytest.raises(Aborted):
        await edit(mesh.client, run, plan(slow, step("late", "slow")))
    go_on.set()
    run = await handle.result(timeout=15)
    assert answer_text(run) == "shortcut(slow())"
    assert roles.worked == ["slow", "shortcut"]
    with pytest.raises(FailedPrecondition):
        await edit(mesh.client, run, plan(slow))


TRIP = {
    "goal": "a trip",
    "subtasks": [
        step("flight", role="booker"),
        step("guide", role="writer"),
        step("hotel", "flight", role="booker"),
        step("check", "hotel", "guide", role="checker"),
        step("trip", "check", role="writer"),
    ],
}


async def start(mesh: Mesh, *, delay: float) -> dict[str, ServiceProcess]:
    """A planner and three roles, in processes of their own."""
    planner = await mesh.agent_process(
        "planner", module="tests.fixtures.planning_agent", delay=delay, PLANS=json.dumps([TRIP])
    )
    return {"planner": planner} | {
        role: await mesh.agent_process(role, delay=delay) for role in ("booker", "writer", "checker")
    }


async def begun(mesh: Mesh, role: str) -> None:
    async def look() -> bool:
        return any(began == role for began, _ in mesh.executions("begin"))

    await eventually(look, 20.0)


def done(mesh: Mesh) -> Counter[str]:
    """How often each task was finished."""
    lines = mesh.ledger.read_text().splitlines()
    return Counter(words[2] for words in map(str.split, lines) if words[0] == "end")


@pytest.mark.slow
@pytest.mark.liveness
@pytest.mark.parametrize(
    "victim",
    ["orchestrator", "booker", *(pytest.param(role, marks=pytest.mark.slow) for role in ("planner", "writer"))],
)
async def test_a_killed_process_ends_no_plan_and_repeats_nothing(own_mesh: Mesh, victim: str) -> None:
    mesh = own_mesh
    processes = await start(mesh, delay=0.7)
    handle = await mesh.client.submit("a trip", strategy="plan")
    await begun(mesh, victim if victim != "orchestrator" else "booker")
    process = mesh.orchestrator if victim == "orchestrator" else processes[victim]
    await process.kill()
    await process.start()
    run = await handle.result(timeout=60)
    assert run.state == COMPLETED
    assert [task.role for task in run.tasks] == ["planner", "booker", "writer", "booker", "checker", "writer"]
    assert answer_text(run) == "writer(checker(booker(booker()), writer()))"
    assert set(done(mesh).values()) == {1}, "nothing that was finished is done again"
