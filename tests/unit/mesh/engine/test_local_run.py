"""A run in a process: the host of the engine without services."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from archon.errors import ResourceExhausted
from archon.failure_kinds import RetryAdvice
from archon_mesh.engine import LocalRun, RunState, Task
from archon_mesh.engine import events as ev
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.types import Edge, Failure, Submission, TaskState
from tests.fixtures.virtual_time import in_virtual_time
from tests.fixtures.waiting import until

BUSY = Failure("UNAVAILABLE", "UNAVAILABLE", "busy", retry=int(RetryAdvice.LATER))


def submit(*roles: str, timeout: float = 600.0) -> inp.Submit:
    """A pipeline: each role waits for the one before."""
    edges = tuple(Edge(first, second) for first, second in itertools.pairwise(roles))
    return inp.Submit(Submission("r", "", "", "", "pipeline", roles, edges, timeout, None), "", 1)


def done(task: Task, payload: object = None) -> inp.ResultIn:
    return inp.ResultIn(task.task_id, task.attempt, TaskState.COMPLETED, payload)


class Roles:
    """Executes attempts by a function of the role; notes the beginnings, and the attempts that were cancelled."""

    def __init__(self, answer: Callable[[Task], Awaitable[inp.ResultIn]] | None = None) -> None:
        self.began: list[str] = []
        self.cancelled: list[str] = []
        self._answer = answer

    async def __call__(self, run: RunState, task: Task) -> inp.ResultIn:
        self.began.append(f"{task.role} {task.attempt}")
        try:
            return await self._answer(task) if self._answer is not None else done(task, task.role)
        except asyncio.CancelledError:
            self.cancelled.append(task.role)
            raise


async def forever(task: Task) -> inp.ResultIn:
    await asyncio.Event().wait()
    raise AssertionError


async def test_a_retry_that_comes_due_while_the_run_reports_is_made() -> None:
    """Neither too early when attempts are started, nor passed over when the timer is set."""
    now, failures = [0.0], iter([BUSY])

    async def answer(task: Task) -> inp.ResultIn:
        if (failure := next(failures, None)) is not None:
            return inp.ResultIn(task.task_id, task.attempt, TaskState.FAILED, None, failure)
        return done(task)

    async def slow_report() -> None:
        now[0] += 60.0

    run = LocalRun([submit("a")], Roles(answer), after_turn=slow_report, clock=lambda: now[0])
    async with asyncio.timeout(5):
        assert (await run.run()).state is TaskState.COMPLETED


async def test_a_deadline_that_passes_while_the_run_reports_ends_it() -> None:
    now = [0.0]

    async def slow_report() -> None:
        now[0] += 60.0

    run = LocalRun([submit("a", timeout=30.0)], Roles(forever), after_turn=slow_report, clock=lambda: now[0])
    async with asyncio.timeout(5):
        assert (await run.run()).state is TaskState.FAILED


async def test_tasks_are_executed_in_the_order_of_the_edges() -> None:
    roles, events = Roles(), list[ev.Event]()
    state = await LocalRun([submit("a", "b", "c")], roles, observe=lambda run, event: events.append(event)).run()
    assert state.state is TaskState.COMPLETED
    assert roles.began == ["a 1", "b 1", "c 1"]
    assert [task.payload for task in state.roots()] == ["a", "b", "c"]
    assert type(events[0]) is ev.Submitted and type(events[-1]) is ev.RunEnded


async def test_no_more_attempts_start_than_may() -> None:
    most = 0

    async def answer(task: Task) -> inp.ResultIn:
        nonlocal most
        most = max(most, len(run.attempts))
        await asyncio.sleep(0)
        return done(task)

    independent = inp.Submit(Submission("r", "", "", "", "pipeline", tuple("abcdef"), (), 600.0, None), "", 1)
    run = LocalRun([independent], Roles(answer), may_start=lambda run, task: len(run.live_tasks()) < 2)
    assert (await run.run()).state is TaskState.COMPLETED
    assert most == 2


@in_virtual_time
async def test_a_failure_that_may_pass_is_tried_again_after_a_pause() -> None:
    loop, times = asyncio.get_running_loop(), list[float]()

    async def answer(task: Task) -> inp.ResultIn:
        times.append(loop.time())
        if task.attempt < 3:
            return inp.ResultIn(task.task_id, task.attempt, TaskState.FAILED, None, BUSY)
        return done(task)

    state = await LocalRun([submit("a")], Roles(answer), clock=loop.time).run()
    assert state.state is TaskState.COMPLETED
    assert [round(after - before, 1) for before, after in itertools.pairwise(times)] == [0.5, 1.0]


@in_virtual_time
async def test_a_run_ends_at_its_deadline_and_its_attempts_with_it() -> None:
    roles = Roles(forever)
    state = await LocalRun([submit("a", timeout=30.0)], roles, clock=asyncio.get_running_loop().time).run()
    assert (state.state, state.failure and state.failure.reason) == (TaskState.FAILED, "RUN_TIMEOUT")
    assert roles.cancelled == ["a"]


async def test_a_cancelled_run_ends_when_its_attempts_have() -> None:
    roles = Roles(forever)
    run = LocalRun([submit("a")], roles)
    execution = asyncio.create_task(run.run())
    await until(lambda: roles.began == ["a 1"])
    run.give(inp.Cancel("ada", "enough"))
    state = await execution
    assert (state.state, roles.cancelled, run.over) == (TaskState.CANCELED, ["a"], True)


async def test_a_pause_holds_up_what_has_not_begun() -> None:
    go = asyncio.Event()

    async def answer(task: Task) -> inp.ResultIn:
        await go.wait()
        return done(task)

    roles = Roles(answer)
    run = LocalRun([submit("a", "b")], roles)
    execution = asyncio.create_task(run.run())
    await until(lambda: roles.began == ["a 1"])
    run.give(inp.Pause("ada"))
    go.set()
    await until(lambda: not run.attempts)
    assert roles.began == ["a 1"]
    run.give(inp.Resume("ada"))
    assert (await execution).state is TaskState.COMPLETED


@pytest.mark.parametrize("error", [ValueError("a bug"), KeyError("x")])
async def test_what_an_attempt_raises_ends_the_run_and_is_raised(error: Exception) -> None:
    async def answer(task: Task) -> inp.ResultIn:
        if task.role == "a":
            raise error
        return await forever(task)

    roles = Roles(answer)
    two = inp.Submit(Submission("r", "", "", "", "pipeline", ("a", "b"), (), 600.0, None), "", 1)
    run = LocalRun([two], roles)
    with pytest.raises(type(error)):
        await run.run()
    assert (roles.cancelled, run.over, run.state.ended) == (["b"], True, False)


async def test_a_cancelled_host_leaves_no_attempt_behind() -> None:
    roles = Roles(forever)
    execution = asyncio.create_task(LocalRun([submit("a")], roles).run())
    await until(lambda: roles.began == ["a 1"])
    execution.cancel()
    with pytest.raises(asyncio.CancelledError):
        await execution
    assert roles.cancelled == ["a"]


async def test_an_observer_sees_each_event_with_the_state_after_it() -> None:
    seqs: list[int] = []

    def observe(run: RunState, event: Any) -> None:
        seqs.append(run.last_seq)

    await LocalRun([submit("a", "b")], Roles(), observe=observe).run()
    assert seqs == list(range(1, len(seqs) + 1))


class FullJournal:
    """Keeps nothing."""

    def add(self, events: Sequence[ev.Event], now: float) -> None:
        pass

    def flush(self) -> None:
        raise ResourceExhausted("the disk is full")


async def test_after_a_failed_write_no_command_is_accepted() -> None:
    """The state is ahead of the journal: what is decided on it would be lost."""
    run = LocalRun([submit("a")], Roles(forever), journal=FullJournal())
    for command in (inp.Pause(""), inp.Resume("")):
        with pytest.raises(ResourceExhausted):
            run.give(command)
