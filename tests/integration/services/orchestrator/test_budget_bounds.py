"""Limits of a run's budget on a real mesh (rule C9): time, depth, single delegations, lost attempts, restarts, and
invalid values."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from types import SimpleNamespace

import pytest

from archon import types
from archon.agent import TaskContext
from archon.api.agent.v1 import agent_pb2, session_pb2
from archon.api.common.v1 import common_pb2, failure_pb2
from archon.client import answer_text
from archon.errors import ArchonError, BudgetExhausted, DelegationTimeout, DelegationTooDeep, InvalidArgument
from archon.submission import submit_request
from archon.types import Budget
from archon.wire import duration
from tests.fixtures.bare_agent import BareAgent, Frame, Replies
from tests.fixtures.mesh import Mesh
from tests.integration.services.orchestrator.test_budget import (
    CANCELED,
    COMPLETED,
    FAILED,
    exhausted,
    most,
    seconds_to_end,
    spend,
)
from tests.integration.services.orchestrator.test_delegation_ends import STOPPED_WITHIN, Sleeper
from tests.integration.services.orchestrator.test_outages import begun
from tests.integration.services.orchestrator.test_strangers import completed
from tests.integration.services.orchestrator.troupe import Troupe, durable, failing_to, of

pytestmark = pytest.mark.liveness


def seconds(amount: float) -> Budget:
    """Returns a budget of wall time."""
    return Budget(max_time=amount)


@pytest.mark.parametrize(("time_", "timeout"), [(1.0, 20.0), (20.0, 1.0)], ids=["the budget's", "the run's"])
async def test_contract_rule_9_the_nearer_time_limit_bounds_all_work(
    mesh: Mesh, troupe: Troupe, time_: float, timeout: float
) -> None:
    sleeper, left = Sleeper(), []

    async def chef(task: TaskContext) -> str:
        left.append(task.remaining())
        return (await task.delegate("x", role="sleeper")).text

    await troupe("sleeper", sleeper.handler())
    await troupe("chef", chef)
    handle = await mesh.client.submit("x", roles=["chef"], budget=seconds(time_), timeout=timeout)
    run = await handle.result(timeout=10)
    assert (run.state, run.proto.failure.reason) == (FAILED, failure_pb2.ERROR_REASON_RUN_TIMEOUT)
    assert {task.state for task in run.tasks} == {CANCELED}
    assert left[0] is not None
    assert 0.5 < left[0] <= 1.0
    assert sleeper.stopped.is_set()
    assert seconds_to_end(await durable(handle)) < STOPPED_WITHIN


async def test_contract_rule_9_depth_is_equal_for_roles_of_a_pipeline(mesh: Mesh, troupe: Troupe) -> None:
    errors: list[ArchonError] = []
    await troupe("writer", failing_to(errors, role="helper"))
    await troupe("printer", failing_to(errors, role="helper"), depends_on=["writer"])
    await troupe("helper", failing_to(errors, role="requirements"))
    budget = Budget(max_depth=1)
    run = (await mesh.client.submit("x", roles=["writer", "printer"], budget=budget, wait=10)).run
    assert run.state == COMPLETED
    assert [type(error) for error in errors] == [DelegationTooDeep] * 2, "the delegation of each helper is too deep"
    assert [task.role for task in run.tasks] == ["writer", "printer", "helper", "helper"]


@pytest.mark.parametrize("whole", [Budget(max_tokens=8000), None], ids=["with a budget", "without a budget"])
async def test_contract_rule_9_a_delegations_budget_bounds_only_it(
    mesh: Mesh, troupe: Troupe, whole: Budget | None
) -> None:
    stopped, went_on = Sleeper(), asyncio.Event()

    async def glutton(task: TaskContext) -> str:
        await most(task, 100)
        spend(task, 101)
        return await stopped(task)

    async def cook(task: TaskContext) -> str:
        await task.reserve(tokens=1000)
        spend(task, 1000)
        await went_on.wait()
        return "cooked"

    async def chef(task: TaskContext) -> str:
        cooking = asyncio.create_task(task.delegate("x", role="cook"))
        with pytest.raises(BudgetExhausted) as raised:
            await task.delegate("x", role="glutton", budget=types.Budget(max_tokens=100))
        refused = time.monotonic()
        await stopped.stopped.wait()
        assert time.monotonic() - refused < STOPPED_WITHIN
        went_on.set()
        return f"{(await cooking).text}, not by {raised.value.metadata['role']}"

    await troupe("glutton", glutton)
    await troupe("cook", cook)
    await troupe("chef", chef)
    handle = await mesh.client.submit("x", roles=["chef"], budget=whole, wait=10)
    assert answer_text(handle.run) == "cooked, not by glutton", handle.run.failure
    assert {task.role: task.state for task in handle.run.tasks} == {
        "chef": COMPLETED,
        "cook": COMPLETED,
        "glutton": CANCELED,
    }


async def test_contract_rule_9_a_delegations_time_bounds_only_it(mesh: Mesh, troupe: Troupe) -> None:
    sleeper, left = Sleeper(), []

    async def cook(task: TaskContext) -> str:
        left.append(task.remaining())
        return await sleeper(task)

    async def chef(task: TaskContext) -> str:
        began = time.monotonic()
        with pytest.raises(DelegationTimeout):
            await task.delegate("x", role="cook", budget=types.Budget(max_time=0.5))
        assert time.monotonic() - began < 0.5 + STOPPED_WITHIN
        return (await task.delegate("x", role="requirements", timeout=5.0, budget=types.Budget(max_time=20.0))).text

    await troupe("cook", cook)
    await troupe("chef", chef)
    run = (await mesh.client.submit("x", roles=["chef"], wait=10)).run
    assert answer_text(run) == "requirements()", run.failure
    assert left[0] is not None
    assert left[0] <= 0.5


async def test_contract_rule_9_a_lost_attempt_counts_its_whole_slice(own_mesh: Mesh) -> None:
    mesh = own_mesh
    victim = await mesh.agent_process("writer", delay=30.0)

    async def auditor(task: TaskContext) -> str:
        await most(task, 800 - 100)  # the slice of the first attempt; the second used none of its slice
        return "counted"

    async with AsyncExitStack() as stack:
        await Troupe(mesh, stack)("auditor", auditor, depends_on=["writer"])
        handle = await mesh.client.submit("x", roles=["writer", "auditor"], budget=Budget(max_tokens=800))
        await begun(mesh, "writer")
        await victim.kill()
        await mesh.agent("writer")
        run = await handle.result(timeout=10)
        assert answer_text(run) == "counted", run.failure
        assert [(task.role, task.attempt) for task in run.tasks] == [("writer", 2), ("auditor", 1)]
        dispatched = of(await durable(handle), "dispatched", "writer")
        assert [event.dispatched.budget.max_tokens for event in dispatched] == [100, 100]


@pytest.mark.parametrize("end", ["kept", "above"])
async def test_contract_rule_9_usage_survives_the_orchestrator(own_mesh: Mesh, end: str) -> None:
    mesh = own_mesh
    reached, restarted, sleeper = asyncio.Event(), asyncio.Event(), Sleeper()

    async def writer(task: TaskContext) -> str:
        spend(task, 300)
        return "written"

    async def auditor(task: TaskContext) -> str:
        await task.reserve(tokens=200)
        spend(task, 200)
        reached.set()
        await restarted.wait()
        if end == "kept":
            await most(task, 800 - 300 - 200)
            return "counted"
        spend(task, 301)
        return await sleeper(task)

    async with AsyncExitStack() as stack:
        troupe = Troupe(mesh, stack)
        await troupe("writer", writer)
        await troupe("auditor", auditor, depends_on=["writer"])
        handle = await mesh.client.submit("x", roles=["writer", "auditor"], budget=Budget(max_tokens=800))
        async with asyncio.timeout(10):
            await reached.wait()
        await mesh.orchestrator.kill()
        await mesh.orchestrator.start()
        restarted.set()
        run = await handle.result(timeout=10)
        assert [task.attempt for task in run.tasks] == [1, 1]
        if end == "kept":
            assert answer_text(run) == "counted", run.failure
        else:
            assert exhausted(run)
            assert sleeper.stopped.is_set()


@pytest.mark.parametrize(
    ("field", "budget"),
    [
        ("budget.max_tokens", common_pb2.Budget(max_tokens=-1)),
        ("budget.max_cost_micro_usd", common_pb2.Budget(max_tokens=5, max_cost_micro_usd=-1)),
        ("budget.max_depth", common_pb2.Budget(max_depth=-1)),
        ("budget.max_depth", common_pb2.Budget(max_depth=33)),
        ("budget.max_time", common_pb2.Budget(max_time=duration(-1.0))),
        ("budget.max_time", common_pb2.Budget(max_time=duration(0.0))),
    ],
)
async def test_contract_rule_9_an_invalid_budget_is_refused_by_field(
    mesh: Mesh, field: str, budget: common_pb2.Budget
) -> None:
    request = submit_request("x", roles=["requirements"])
    request.budget.CopyFrom(budget)
    with pytest.raises(InvalidArgument) as refused:
        await mesh.client._stub.SubmitRun(request, timeout=10)
    assert [violation.field for violation in refused.value.field_violations] == [field]


@pytest.mark.parametrize(
    ("field", "budget"),
    [
        ("budget.max_tokens", common_pb2.Budget(max_tokens=-1)),
        ("budget.max_cost_micro_usd", common_pb2.Budget(max_cost_micro_usd=-1)),
        ("budget.max_depth", common_pb2.Budget(max_depth=-1)),
    ],
)
async def test_contract_rule_9_a_negative_delegation_budget_is_refused(
    mesh: Mesh, troupe: Troupe, field: str, budget: common_pb2.Budget
) -> None:
    errors: list[ArchonError] = []
    anything = SimpleNamespace(proto=budget)  # a Budget of the SDK takes no negative limit
    await troupe("chef", failing_to(errors, role="requirements", budget=anything))
    run = (await mesh.client.submit("x", roles=["chef"], wait=10)).run
    assert run.state == COMPLETED
    (error,) = errors
    assert isinstance(error, InvalidArgument)
    assert error.metadata == {"field": field}
    assert len(run.tasks) == 1


@pytest.mark.parametrize("amount", [{"tokens": -1}, {"cost_micro_usd": -1}], ids=["tokens", "cost"])
async def test_contract_rule_9_a_negative_reservation_is_refused(
    mesh: Mesh, troupe: Troupe, amount: dict[str, int]
) -> None:
    async def writer(task: TaskContext) -> str:
        with pytest.raises(InvalidArgument) as refused:
            await task.reserve(**amount)
        await most(task, 800)
        return refused.value.field_violations[0].field

    await troupe("writer", writer)
    run = (await mesh.client.submit("x", roles=["writer"], budget=Budget(max_tokens=800), wait=10)).run
    assert answer_text(run) == next(iter(amount)), run.failure


async def test_contract_rule_9_negative_usage_adds_no_budget(mesh: Mesh, troupe: Troupe) -> None:
    """A member over bare stubs reports negative usage."""
    usage = common_pb2.Usage(input_tokens=-5_000, cost_micro_usd=-5_000)

    def say(frame: Frame) -> Replies:
        if frame.WhichOneof("frame") != "assign_task":
            return []
        result = completed(frame)
        result.result.usage.CopyFrom(usage)
        progress = agent_pb2.Progress(state=common_pb2.TASK_STATE_WORKING, usage=usage)
        return [session_pb2.AgentFrame(task=frame.task, progress=progress), result]

    async def chef(task: TaskContext) -> str:
        await task.delegate("x", role="earner")
        await most(task, 800)
        return "nothing earned"

    async with BareAgent("earner", mesh.registry.address, say, features=("cancel", "budget")) as earner:
        await troupe("chef", chef)
        await mesh.seen(earner.address)
        run = (await mesh.client.submit("x", roles=["chef"], budget=Budget(max_tokens=800), wait=10)).run
    assert answer_text(run) == "nothing earned", run.failure


async def test_usage_above_the_maximum_is_reported_as_the_maximum(mesh: Mesh, troupe: Troupe) -> None:
    huge = 2**63 - 1

    def say(frame: Frame) -> Replies:
        if frame.WhichOneof("frame") != "assign_task":
            return []
        result = completed(frame)
        result.result.usage.CopyFrom(common_pb2.Usage(input_tokens=huge, output_tokens=huge))
        return [result]

    async def chef(task: TaskContext) -> str:
        await asyncio.gather(*(task.delegate(f"{n}", role="giant") for n in range(2)))
        return "done"

    async with BareAgent("giant", mesh.registry.address, say) as giant:
        await troupe("chef", chef)
        await mesh.seen(giant.address)
        run = (await mesh.client.submit("x", roles=["chef"], wait=10)).run
    assert answer_text(run) == "done", run.failure
    assert run.usage.input_tokens == run.usage.output_tokens == 2**53 - 1
