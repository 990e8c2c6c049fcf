"""Runs that begin with a plan of their caller: without a planner, and with one for replans."""

from __future__ import annotations

import asyncio
import json
import uuid
from dataclasses import asdict
from typing import Any

import pytest

from archon.agent import TaskContext
from archon.client import RunHandle, answer_text
from archon.errors import InvalidArgument, UnknownRole
from archon.types import TaskState
from archon_mesh.planning import SubTask, committee, redundant
from tests.fixtures.mesh import Mesh
from tests.integration.services.orchestrator.troupe import Troupe, durable, of


def plan(*steps: SubTask) -> str:
    return json.dumps({"goal": "an answer", "subtasks": [asdict(step) for step in steps]})


class Workers:
    """A role whose answers are by step; an answer may be an error, or wait."""

    def __init__(self, **answers: str | Exception | asyncio.Event) -> None:
        self.role = f"worker-{uuid.uuid4().hex[:6]}"
        self.answers = {name.replace("_", "-"): answer for name, answer in answers.items()}
        self.worked: list[str] = []

    async def work(self, task: TaskContext) -> str:
        self.worked.append(task.step_id)
        answer = self.answers.get(task.step_id, f"{task.step_id} is done")
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, asyncio.Event):
            await answer.wait()
            return "late"
        return answer


async def submit(mesh: Mesh, workers: Workers, text: str, **options: Any) -> RunHandle:
    return await mesh.client.submit(
        "an answer", **{"strategy": "plan", "roles": [workers.role], "plan": text, "wait": 20, **options}
    )


async def test_a_committee_votes_without_a_planner(mesh: Mesh, troupe: Troupe) -> None:
    workers = Workers(committee_1="360", committee_2="12", committee_3="361")
    await troupe(workers.role, workers.work)
    handle = await submit(mesh, workers, plan(*committee("How many?", roles=[workers.role])))
    assert handle.run.state == TaskState.COMPLETED, handle.run.failure
    assert answer_text(handle.run) == "360"
    assert [(task.role, task.step_id) for task in handle.run.tasks] == [
        *[(workers.role, f"committee-{number}") for number in (1, 2, 3)],
        ("decision", "committee"),
    ], "no task stands for a planner"
    assert getattr(handle.run.tasks[-1].resolution, "reason", "") == "the answer of committee-1 has 2 of 3 votes"


async def test_members_that_fail_do_not_end_the_run(mesh: Mesh, troupe: Troupe) -> None:
    broken = InvalidArgument("it cannot be done")
    workers = Workers(committee_1=broken, committee_2=broken)
    await troupe(workers.role, workers.work)
    members = committee("How many?", members=5, roles=[workers.role], least=0.0)
    handle = await submit(mesh, workers, plan(*members))
    assert handle.run.state == TaskState.FAILED, "three members differ"
    workers.answers |= dict.fromkeys(("committee-3", "committee-4"), "360")
    handle = await submit(mesh, workers, plan(*members))
    assert answer_text(handle.run) == "360"


async def test_a_run_without_a_planner_fails_if_its_last_step_does(mesh: Mesh, troupe: Troupe) -> None:
    workers = Workers(one=InvalidArgument("it cannot be done"))
    await troupe(workers.role, workers.work)
    steps = (
        SubTask("one", "do it", role=workers.role),
        SubTask("two", "go on", role=workers.role, dependencies=("one",)),
    )
    handle = await submit(
        mesh,
        workers,
        plan(
            SubTask("zero", "begin", role=workers.role),
            *steps[:1],
            SubTask("two", "go on", role=workers.role, dependencies=("zero", "one")),
        ),
    )
    assert handle.run.state == TaskState.FAILED
    assert handle.run.failure is not None
    assert handle.run.failure.reason == "PLAN_FAILED"
    assert handle.run.failure.message == "two did not complete, and the run has no planner"
    critical = SubTask("one", "do it", role=workers.role, critical=True)
    handle = await submit(mesh, workers, plan(critical))
    assert handle.run.failure is not None
    assert handle.run.failure.message == "step 'one' of the plan failed and the run has no planner"


async def test_a_named_planner_makes_the_next_plan(mesh: Mesh, troupe: Troupe) -> None:
    workers = Workers(one=InvalidArgument("it cannot be done"))
    planner = f"planner-{workers.role}"
    await troupe(workers.role, workers.work)

    async def replan(task: TaskContext) -> str:
        assert task.plan_request is not None
        return plan(SubTask("other", "do it otherwise", role=workers.role))

    await troupe(planner, replan)
    critical = SubTask("one", "do it", role=workers.role, critical=True)
    handle = await submit(mesh, workers, plan(critical), planner=planner)
    assert answer_text(handle.run) == "other is done"
    assert len(of(await durable(handle), "planned")) == 2


async def test_copies_that_are_not_needed_are_cancelled(mesh: Mesh, troupe: Troupe) -> None:
    workers = Workers(task_2=asyncio.Event())
    await troupe(workers.role, workers.work)
    handle = await submit(mesh, workers, plan(*redundant(SubTask("task", "do it", role=workers.role))))
    assert answer_text(handle.run) == "task-1 is done"
    states = {task.step_id: task.state for task in handle.run.tasks}
    assert states == {"task-1": TaskState.COMPLETED, "task-2": TaskState.CANCELED, "task": TaskState.COMPLETED}


async def test_a_run_with_a_given_plan_can_be_forked_for_the_same_goal(mesh: Mesh, troupe: Troupe) -> None:
    workers = Workers()
    await troupe(workers.role, workers.work)
    chain = plan(
        SubTask("one", "begin", role=workers.role), SubTask("two", "end", role=workers.role, dependencies=("one",))
    )
    handle = await submit(mesh, workers, chain)
    fork = await mesh.client.fork(handle.run_id)
    assert answer_text(await fork.result(10)) == "two is done"
    assert workers.worked == ["one", "two"], "nothing is done again"
    for options in ({"goal": "another goal"}, {"after_seq": 1}):
        with pytest.raises(InvalidArgument, match="the run has no planner: its plan is for its goal"):
            await mesh.client.fork(handle.run_id, **options)


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([], "no subtask"),
        ([SubTask("a", "x", dependencies=("b",)), SubTask("b", "y", dependencies=("a",))], "in a circle"),
        ([SubTask("a", "x"), SubTask("b", "y")], "only a planner can combine the results of several last steps: a, b"),
        ([SubTask("a", "x", expand=True)], "only a planner can expand it"),
        ([SubTask("a", "x", role="stranger")], "stranger"),
    ],
)
async def test_a_plan_with_faults_is_refused(mesh: Mesh, troupe: Troupe, steps: list[SubTask], message: str) -> None:
    workers = Workers()
    await troupe(workers.role, workers.work)
    with pytest.raises(InvalidArgument, match=message) as refused:
        await submit(mesh, workers, plan(*steps))
    assert {violation.field for violation in refused.value.field_violations} == {"plan_json"}


async def test_options_that_do_not_fit_a_given_plan_are_refused(mesh: Mesh, troupe: Troupe) -> None:
    workers = Workers()
    await troupe(workers.role, workers.work)
    text = plan(SubTask("a", "x", role=workers.role))
    for options in (
        {"strategy": "pipeline"},
        {"check_alignment": True},
        {"plan": "no plan"},
        {"plan": "x" * 1_100_000},
    ):
        with pytest.raises(InvalidArgument):
            await submit(mesh, workers, text, **options)
    with pytest.raises(UnknownRole):
        await submit(mesh, workers, text, roles=["stranger"])
