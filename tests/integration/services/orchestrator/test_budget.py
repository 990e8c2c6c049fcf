"""The budget of a run on a real mesh (rule C9): reserved before it is spent, settled later, shared by all tasks."""

from __future__ import annotations

import asyncio
import time

import pytest

from archon.agent import TaskContext
from archon.api.common.v1 import failure_pb2
from archon.client import answer_text
from archon.errors import BudgetExhausted
from archon.types import Budget, Run, TaskState, Usage
from tests.fixtures.mesh import Mesh
from tests.integration.services.orchestrator.test_delegation_ends import STOPPED_WITHIN, Sleeper
from tests.integration.services.orchestrator.troupe import Event, Troupe, durable, of

pytestmark = pytest.mark.liveness

COMPLETED, FAILED, CANCELED = (
    TaskState.COMPLETED,
    TaskState.FAILED,
    TaskState.CANCELED,
)


def spend(task: TaskContext, tokens: int, cost: int = 0) -> None:
    """Records a model call with this usage, which the agent reports in its progress and in its result."""
    usage = Usage(input_tokens=tokens, cost_micro_usd=cost)
    task.record_model_call("scripted", {}, {}, started=time.time(), seconds=0.0, usage=usage)


async def most(task: TaskContext, tokens: int) -> None:
    """Asserts that the task can hold exactly this many tokens, its slice and the rest of the budget together."""
    with pytest.raises(BudgetExhausted):
        await task.reserve(tokens=tokens + 1)
    await task.reserve(tokens=tokens)


def exhausted(run: Run) -> bool:
    """Returns whether the run failed because its budget was exhausted."""
    return (run.state, run.proto.failure.reason) == (FAILED, failure_pb2.ERROR_REASON_BUDGET_EXHAUSTED)


def seconds_to_end(events: list[Event]) -> float:
    """Returns the seconds from the decision to cancel the run to its last event."""
    (cancel,) = of(events, "cancel_requested")
    return float(events[-1].time.ToNanoseconds() - cancel.time.ToNanoseconds()) / 1e9


async def test_contract_rule_9_all_tasks_of_a_run_share_its_budget(mesh: Mesh, troupe: Troupe) -> None:
    async def helper(task: TaskContext) -> str:
        spend(task, 50)
        return "helped"

    async def writer(task: TaskContext) -> str:
        await task.delegate("x", role="helper")
        await most(task, 800 - 50)  # the helper has ended and spent 50
        spend(task, 300)
        return "written"

    async def printer(task: TaskContext) -> str:
        await most(task, 800 - 50 - 300)
        return "printed"

    await troupe("helper", helper)
    await troupe("writer", writer)
    await troupe("printer", printer, depends_on=["writer"])
    run = (await mesh.client.submit("x", roles=["writer", "printer"], budget=Budget(max_tokens=800), wait=10)).run
    assert answer_text(run) == "printed", run.failure
    assert [(task.role, task.usage.input_tokens) for task in run.tasks] == [
        ("writer", 300),
        ("printer", 0),
        ("helper", 50),
    ]


@pytest.mark.parametrize(
    ("budget", "granted"),
    [
        (Budget(max_tokens=800, max_cost_micro_usd=80), Budget(max_tokens=100, max_cost_micro_usd=10)),
        (Budget(max_tokens=800), Budget(max_tokens=100)),
        (Budget(max_cost_micro_usd=80), Budget(max_cost_micro_usd=10)),
        (Budget(max_depth=3), None),
        (None, None),
    ],
    ids=["both", "tokens", "cost", "depth alone", "none"],
)
async def test_contract_rule_9_an_agent_sees_slices_of_limited_kinds(
    mesh: Mesh, troupe: Troupe, budget: Budget | None, granted: Budget | None
) -> None:
    budgets: list[Budget | None] = []

    async def writer(task: TaskContext) -> str:
        budgets.append(task.budget)
        limited = budget or Budget()
        await task.reserve(tokens=0 if limited.max_tokens else 10**9)
        await task.reserve(cost_micro_usd=0 if limited.max_cost_micro_usd else 10**9)
        return "written"

    await troupe("writer", writer)
    handle = await mesh.client.submit("x", roles=["writer"], budget=budget, wait=10)
    assert answer_text(handle.run) == "written"
    assert budgets == [granted]
    events = await durable(handle)
    (dispatched,) = of(events, "dispatched")
    assert Budget.from_proto(dispatched.dispatched.budget) == (granted or Budget())
    assert not of(events, "budget_reserved")


async def test_contract_rule_9_all_agents_share_the_calls_of_models(mesh: Mesh, troupe: Troupe) -> None:
    async def calls(task: TaskContext) -> str:
        made = 0
        try:
            while True:
                await task.reserve(tokens=1)
                usage = Usage(input_tokens=1, model_calls=1)
                task.record_model_call("scripted", {}, {}, started=time.time(), seconds=0.0, usage=usage)
                made += 1
        except BudgetExhausted as error:
            return f"{made} {error.metadata['budget']}"

    await troupe("first", calls)
    await troupe("second", calls, depends_on=["first"])
    roles = ["first", "second"]
    handle = await mesh.client.submit("x", roles=roles, budget=Budget(max_model_calls=5), wait=10)
    assert handle.run is not None
    assert "0 of 5 calls of models left" in handle.run.proto.failure.message
    assert handle.run.usage.model_calls == 5


async def test_contract_rule_9_a_refused_reservation_is_a_typed_error(mesh: Mesh, troupe: Troupe) -> None:
    async def writer(task: TaskContext) -> str:
        await task.reserve(tokens=100)  # its slice
        await task.reserve(tokens=600)  # reserved in addition to the slice
        with pytest.raises(BudgetExhausted) as refused:
            await task.reserve(tokens=101)
        await task.reserve(tokens=100)
        return f"{refused.value.code} for {refused.value.metadata['role']}"

    await troupe("writer", writer)
    handle = await mesh.client.submit("x", roles=["writer"], budget=Budget(max_tokens=800), wait=10)
    assert answer_text(handle.run) == "RESOURCE_EXHAUSTED for writer"
    reserved = [event.budget_reserved for event in of(await durable(handle), "budget_reserved")]
    assert [event.budget.max_tokens if event.HasField("budget") else None for event in reserved] == [600, None, 100]


async def test_contract_rule_9_a_result_settles_and_frees_the_rest(mesh: Mesh, troupe: Troupe) -> None:
    async def helper(task: TaskContext) -> str:
        await task.reserve(tokens=600, cost_micro_usd=60)
        spend(task, 40, 7)
        return "helped"

    async def writer(task: TaskContext) -> str:
        helped = await task.delegate("x", role="helper")
        assert (helped.usage.input_tokens, helped.usage.cost_micro_usd) == (40, 7)
        await task.reserve(tokens=760, cost_micro_usd=73)
        for more in ({"tokens": 1}, {"cost_micro_usd": 1}):
            with pytest.raises(BudgetExhausted):
                await task.reserve(**more)
        return "written"

    await troupe("helper", helper)
    await troupe("writer", writer)
    budget = Budget(max_tokens=800, max_cost_micro_usd=80)
    run = (await mesh.client.submit("x", roles=["writer"], budget=budget, wait=10)).run
    assert answer_text(run) == "written", run.failure


async def test_contract_rule_9_concurrent_reservations_stay_in_budget(mesh: Mesh, troupe: Troupe) -> None:
    cooks, amounts = 6, []
    together = asyncio.Barrier(cooks)

    async def cook(task: TaskContext) -> str:
        assert task.budget is not None
        mine = task.budget.max_tokens
        await together.wait()
        for _ in range(10):
            try:
                await task.reserve(tokens=mine + 97)
            except BudgetExhausted:
                break
            mine += 97
            task._budget.settle()  # as after a call without usage: the reservation stays
        amounts.append(mine)
        await together.wait()  # no task ends while another reserves
        return str(mine)

    async def chef(task: TaskContext) -> str:
        assert task.budget is not None
        amounts.append(task.budget.max_tokens)
        return " ".join(
            [meal.text for meal in await asyncio.gather(*(task.delegate(f"{n}", role="cook") for n in range(cooks)))]
        )

    await troupe("cook", cook, max_tasks=cooks)
    await troupe("chef", chef)
    run = (await mesh.client.submit("x", roles=["chef"], budget=Budget(max_tokens=2000), wait=10)).run
    assert run.state == COMPLETED, run.failure
    assert len(amounts) == 1 + cooks
    assert 2000 - 97 < sum(amounts) <= 2000


@pytest.mark.parametrize("spender", ["chef", "cook"])
async def test_contract_rule_9_usage_above_the_budget_stops_all_work(mesh: Mesh, troupe: Troupe, spender: str) -> None:
    sleepers = {role: Sleeper() for role in ("chef", "cook", "waiter")}

    async def work(task: TaskContext) -> str:
        roles = ["cook", "waiter"] if task.role == "chef" else []
        delegations = [asyncio.create_task(task.delegate("x", role=role)) for role in roles]
        sleepers[task.role].begun.set()
        if task.role == spender:
            await asyncio.gather(*(sleeper.begun.wait() for sleeper in sleepers.values()))
            assert not any(delegation.done() for delegation in delegations)
            spend(task, 801)
        return await sleepers[task.role](task)

    for role in sleepers:
        await troupe(role, work)
    handle = await mesh.client.submit("x", roles=["chef"], budget=Budget(max_tokens=800), timeout=30)
    run = await handle.result(timeout=10)
    assert exhausted(run)
    assert {task.state for task in run.tasks} == {CANCELED}
    assert all(sleeper.stopped.is_set() for sleeper in sleepers.values())
    events = await durable(handle)
    assert of(events, "cancel_requested")[0].cancel_requested.cause == failure_pb2.ERROR_REASON_BUDGET_EXHAUSTED
    assert seconds_to_end(events) < STOPPED_WITHIN


async def test_contract_rule_9_a_role_without_budget_never_begins(mesh: Mesh, troupe: Troupe) -> None:
    async def writer(task: TaskContext) -> str:
        await task.reserve(tokens=800)
        spend(task, 800)
        return "written"

    async def printer(task: TaskContext) -> str:
        raise AssertionError("it has no budget and must not begin")

    await troupe("writer", writer)
    await troupe("printer", printer, depends_on=["writer"])
    run = (await mesh.client.submit("x", roles=["writer", "printer"], budget=Budget(max_tokens=800), wait=10)).run
    assert exhausted(run)
    assert run.proto.failure.metadata["role"] == "printer"
    assert [(task.state, task.attempt) for task in run.tasks] == [(COMPLETED, 1), (FAILED, 0)]


@pytest.mark.parametrize("budget", [Budget(max_tokens=8000), None], ids=["with a budget", "without a budget"])
@pytest.mark.parametrize("how", ["cancelled", "out of time"])
async def test_contract_rule_9_usage_of_stopped_work_is_counted(
    mesh: Mesh, troupe: Troupe, how: str, budget: Budget | None
) -> None:
    begun = asyncio.Event()

    async def cook(task: TaskContext) -> str:
        spend(task, 40, 4)
        begun.set()
        await asyncio.Event().wait()
        return "never"

    async def chef(task: TaskContext) -> str:
        spend(task, 300, 30)
        return (await task.delegate("x", role="cook")).text

    await troupe("cook", cook)
    await troupe("chef", chef)
    timeout = 1.0 if how == "out of time" else 30.0
    handle = await mesh.client.submit("x", roles=["chef"], budget=budget, timeout=timeout)
    async with asyncio.timeout(10):
        await begun.wait()
    if how == "cancelled":
        await handle.cancel("enough")
    run = await handle.result(timeout=10)
    assert [(task.role, task.state, task.usage.input_tokens) for task in run.tasks] == [
        ("chef", CANCELED, 300),
        ("cook", CANCELED, 40),
    ]
    assert (run.usage.input_tokens, run.usage.cost_micro_usd, run.usage.model_calls) == (340, 34, 2)
