"""Plans without runs, the choice of a strategy, and answers to queries, over real processes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from archon.agent import Answer, PlanRequest, TaskContext
from archon.client import Client
from archon.errors import (
    DeadlineExceeded,
    EmptyGoal,
    FailedPrecondition,
    InvalidArgument,
    PlanFailed,
    Unavailable,
    UnknownRole,
)
from archon.registry import Profile, Tool
from archon.strategy_choice import StrategyChoice
from archon.types import TaskState
from tests.fixtures.mesh import Mesh
from tests.integration.services.orchestrator.test_plans import Roles, name, plan, step
from tests.integration.services.orchestrator.troupe import Troupe

PLAN_OF_TWO = plan(
    step("hotel", "flight", tool_name="book", estimated_seconds=3, estimated_cost_micro_usd=20),
    step("flight"),
)


async def runs_of(client: Client) -> int:
    return len(await client.list_runs())


async def test_a_plan_is_returned_and_nothing_is_stored(mesh: Mesh, troupe: Troupe) -> None:
    roles = Roles(PLAN_OF_TWO)
    await roles.join(troupe)
    before = await runs_of(mesh.client)
    made = await mesh.client.plan("a trip", planner=roles.planner, roles=[roles.worker])
    assert (made.goal, made.revision, list(made.changes)) == ("a trip", 1, [])
    assert [(each.step_id, each.role, each.tool_name, list(each.dependencies)) for each in made.steps] == [
        ("hotel", roles.worker, "book", ["flight"]),
        ("flight", roles.worker, "", []),
    ]
    assert (made.steps[0].estimated_seconds, made.steps[0].estimated_cost_micro_usd) == (3, 20)
    assert {(each.task_id, each.state) for each in made.steps} == {("", TaskState.UNSPECIFIED)}
    assert await runs_of(mesh.client) == before
    assert roles.worked == []


async def test_a_reply_with_faults_is_sent_back_and_then_repaired(mesh: Mesh, troupe: Troupe) -> None:
    circle = plan(step("a", "b"), step("b", "a"))
    roles = Roles(circle, circle)
    await roles.join(troupe)
    made = await mesh.client.plan("a trip", planner=roles.planner, roles=[roles.worker])
    assert list(roles.requests[0].faults) == []
    assert "circle" in roles.requests[1].faults[0]
    assert len(made.changes) == 1


async def test_a_reply_that_is_no_plan_is_a_typed_error(mesh: Mesh, troupe: Troupe) -> None:
    roles = Roles("I cannot plan that.", "Really not.")
    await roles.join(troupe)
    with pytest.raises(PlanFailed) as caught:
        await mesh.client.plan("a trip", planner=roles.planner, roles=[roles.worker])
    assert caught.value.field_violations
    assert roles.replies == [], "it is asked twice"


async def test_the_failure_of_a_planner_is_that_of_the_call(mesh: Mesh, troupe: Troupe) -> None:
    roles = Roles()

    async def refuse(task: TaskContext) -> str:
        raise InvalidArgument("the goal makes no sense")

    roles.plan = refuse  # type: ignore[method-assign]
    await roles.join(troupe)
    with pytest.raises(InvalidArgument, match="makes no sense"):
        await mesh.client.plan("a trip", planner=roles.planner, roles=[roles.worker])


async def test_a_planner_without_an_instance_is_unknown(mesh: Mesh) -> None:
    with pytest.raises(UnknownRole):
        await mesh.client.plan("a trip", planner="absent-planner")


async def test_a_silent_planner_ends_at_the_deadline(mesh: Mesh, troupe: Troupe) -> None:
    roles = Roles()
    asked = asyncio.Event()
    cancelled = asyncio.Event()

    async def wait(task: TaskContext) -> str:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return ""

    roles.plan = wait  # type: ignore[method-assign]
    await roles.join(troupe)
    with pytest.raises(DeadlineExceeded) as caught:
        await mesh.client.plan("a trip", planner=roles.planner, roles=[roles.worker], timeout=2.0)
    assert caught.value.metadata["role"] == roles.planner
    assert asked.is_set()
    async with asyncio.timeout(10):
        await cancelled.wait()


async def test_a_killed_planner_is_unavailable(own_mesh: Mesh) -> None:
    planner = await own_mesh.agent_process("planner", module="tests.fixtures.planning_agent", PLANS="[]")
    await own_mesh.agent("writer")
    await planner.kill()
    with pytest.raises((Unavailable, UnknownRole)):  # unknown, once its registration has expired
        await own_mesh.client.plan("a trip", timeout=10.0)


async def test_a_profile_gives_the_estimates_that_a_planner_omits(mesh: Mesh, troupe: Troupe) -> None:
    planner, worker = name("planner"), name("worker")
    requests: list[PlanRequest] = []

    async def make(task: TaskContext) -> str:
        assert task.plan_request is not None
        requests.append(task.plan_request)
        return plan(step("own", estimated_seconds=1.0), step("expected"))

    await troupe(planner, make, planner=True)
    profile = Profile("Say what.", 2_500, 40, 0.5, prompt_template="Do {it}.")
    await troupe(worker, lambda task: "done", profile=profile)
    made = await mesh.client.plan("a trip", planner=planner, roles=[worker])
    assert [(each.estimated_seconds, each.estimated_cost_micro_usd) for each in made.steps] == [(1.0, 40), (2.5, 40)]
    (target,) = requests[0].targets
    assert target.profile == profile
    for _ in range(3):
        await mesh.client.run_task("work", roles=[worker])
    made = await mesh.client.plan("a trip", planner=planner, roles=[worker])
    assert made.steps[1].estimated_seconds < 2.5, "the measured average, once there are three tasks"
    assert (requests[1].targets[0].profile or Profile()).instructions == "Say what."


# The choice of a strategy --------------------------------------------------------------------------------------------


class Kitchen:
    """A planner, a cook with a tool, and a historian, which no other test's roles disturb."""

    def __init__(self) -> None:
        self.planner, self.cook, self.historian = name("planner"), name("cook"), name("historian")
        self.roles = [self.cook, self.historian]

    async def join(self, troupe: Troupe, *, plans: bool = True) -> None:
        if plans:
            await troupe(self.planner, self.plan, planner=True)
        await troupe(self.cook, self.work, description="Cooks soup.", tools=[Tool("boil", "Boils soup.")])
        await troupe(self.historian, self.work, description="Knows facts about numbers.")

    async def plan(self, task: TaskContext) -> str:
        assert task.plan_request is not None
        if task.plan_request.synthesise:
            return " + ".join(item.text for item in task.context)
        return plan(step("1", role=self.cook), step("2", role=self.historian))

    async def work(self, task: TaskContext) -> Answer:
        return Answer(f"{task.role.partition('-')[0]}: {task.text}")

    async def choose(self, client: Client, query: str) -> StrategyChoice:
        return await client.choose_strategy(query, roles=self.roles, planner=self.planner)


async def test_a_query_of_one_step_goes_to_the_role_for_it(mesh: Mesh, troupe: Troupe) -> None:
    kitchen = Kitchen()
    await kitchen.join(troupe)
    choice = await kitchen.choose(mesh.client, "What facts are there about 360?")
    assert (choice.strategy, choice.roles) == ("agent", (kitchen.historian,))
    assert kitchen.historian in choice.reason


async def test_a_query_of_several_steps_is_planned(mesh: Mesh, troupe: Troupe) -> None:
    kitchen = Kitchen()
    await kitchen.join(troupe)
    choice = await kitchen.choose(mesh.client, "Boil the soup, and then find facts about 360.")
    assert (choice.strategy, choice.roles) == ("plan", tuple(sorted(kitchen.roles)))
    assert "2 steps" in choice.reason


async def test_without_a_planner_one_role_answers_all_of_it(mesh: Mesh, troupe: Troupe) -> None:
    kitchen = Kitchen()
    await kitchen.join(troupe, plans=False)
    choice = await kitchen.choose(mesh.client, "Boil the soup, and then find facts about 360.")
    assert (choice.strategy, len(choice.roles)) == ("agent", 1)
    assert "plan" in choice.reason


async def test_a_strategy_is_chosen_only_for_what_can_be_submitted(mesh: Mesh) -> None:
    with pytest.raises(UnknownRole):
        await mesh.client.choose_strategy("x", roles=["absent"])
    with pytest.raises(EmptyGoal):
        await mesh.client.choose_strategy(" ")


async def test_a_task_of_several_roles_has_one_answer(mesh: Mesh, troupe: Troupe) -> None:
    kitchen = Kitchen()
    await kitchen.join(troupe)
    choices: list[StrategyChoice] = []
    answer = await mesh.client.run_task(
        "Boil the soup, and then find facts about 360.",
        roles=kitchen.roles,
        planner=kitchen.planner,
        timeout=20,
        on_choice=choices.append,
    )
    assert answer == "cook: do 1 + historian: do 2"
    assert [choice.strategy for choice in choices] == ["plan"]


async def test_a_task_that_fails_raises_the_failure_of_its_run(mesh: Mesh, troupe: Troupe) -> None:
    role = name("clumsy")

    async def fail(task: TaskContext) -> str:
        raise FailedPrecondition("the stove is cold")

    await troupe(role, fail)
    with pytest.raises(FailedPrecondition, match="stove"):
        await mesh.client.run_task("cook", roles=[role], timeout=20)


async def test_a_task_whose_caller_leaves_is_cancelled(mesh: Mesh, troupe: Troupe) -> None:
    role, began, stopped = name("slow"), asyncio.Event(), asyncio.Event()

    async def wait(task: TaskContext) -> str:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return ""

    await troupe(role, wait)
    waiting = asyncio.create_task(mesh.client.run_task("cook", roles=[role]))
    async with asyncio.timeout(15):
        await began.wait()
        waiting.cancel()
        await stopped.wait()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_planners_are_neither_steps_nor_delegates(mesh: Mesh, troupe: Troupe) -> None:
    planner, other, boss = name("planner"), name("planner"), name("boss")
    requests: list[Any] = []
    targets: list[str] = []

    async def make(task: TaskContext) -> str:
        requests.append(task.plan_request)
        return plan(step("1", role=boss))

    async def lead(task: TaskContext) -> str:
        targets.extend(target.role for target in task.delegation_targets)
        return "led"

    await troupe(planner, make, planner=True)
    await troupe(other, make, planner=True)
    await troupe(boss, lead, coordinator=True)
    await mesh.client.plan("x", planner=planner)
    assert {planner, other}.isdisjoint(target.role for target in requests[0].targets)
    assert await mesh.client.run_task("lead", roles=[boss], timeout=20) == "led"
    assert targets and {planner, other}.isdisjoint(targets)
