"""Checks, while a plan is being executed, whether it still serves its query."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Sequence
from typing import Any

import pytest

from archon.errors import InvalidArgument, OperationCancelled, Unavailable
from archon_mesh.engine.plan import MAX_ALIGNMENT_CHECKS, MAX_REPLANS, ReplanPolicy, Task
from archon_mesh.llm import ScriptedModel, create_model
from archon_mesh.planning import Alignment, PlanEvent, PlanEventKind, PlanExecutor, align_by_model
from archon_mesh.planning.alignment import ALIGNMENT_TIMEOUT, misalignment
from tests.fixtures.plan_replies import reply, subtask
from tests.fixtures.virtual_time import in_virtual_time
from tests.fixtures.waiting import until
from tests.unit.mesh.planning.workers import FunctionWorker, executor_of, no_sleep, plan, planner_of

CHAIN = (subtask("a"), subtask("b", "a"), subtask("c", "b"))


def statuses(task: Task | None) -> dict[str, str]:
    return {each.id: each.status.value for each in task.subtasks} if task is not None else {}


def done(task: Task) -> list[str]:
    return [each.id for each in task.subtasks if each.status.value == "completed"]


class Checker:
    """A check that replies these problems, then none; and with a gate waits before it replies."""

    def __init__(self, problems: Sequence[str] = (), *, gate: asyncio.Event | None = None) -> None:
        self._problems = iter(problems)
        self._gate = gate
        self.seen: list[list[str]] = []
        """The completed subtasks that each check has seen."""

        self.most = self.open = self.cancelled = 0

    async def __call__(self, task: Task) -> Alignment:
        self.seen.append(done(task))
        self.open += 1
        self.most = max(self.most, self.open)
        try:
            if self._gate is not None:
                await self._gate.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.open -= 1
        return Alignment(next(self._problems, ""))


class Thinking:
    """A model whose subtasks end when they are let through."""

    def __init__(self) -> None:
        self.began: list[str] = []
        self._gates: dict[str, asyncio.Event] = {}

    def _gate(self, name: str) -> asyncio.Event:
        return self._gates.setdefault(name, asyncio.Event())

    async def __call__(self, message: str) -> str:
        name = message.splitlines()[0].removeprefix("Do ")
        self.began.append(name)
        await self._gate(name).wait()
        return f"<{name}>"

    def let(self, *names: str) -> None:
        for name in names:
            self._gate(name).set()


async def test_a_plan_in_the_wrong_direction_is_corrected() -> None:
    """No step fails: the results are fine, and lead to a flight although the query asks for a train."""
    wrong = plan(
        subtask("1", description="Find the flights to Rome"),
        subtask("2", "1", description="Compare the airports"),
        subtask("3", "2", description="Book the flight"),
        query="Book a train to Rome",
    )
    verdicts = ['{"aligned": false, "problem": "the query asks for a train, not for a flight"}', '{"aligned": true}']
    judge, events = ScriptedModel(verdicts), list[PlanEvent]()
    planner, planning = planner_of(
        reply(subtask("4", "1", description="Book the train"), subtask("5", "4"), goal="Book a train to Rome")
    )
    thinking = Thinking()
    thinking.let("Find the flights to Rome", "Book the train", "5")

    async def think(message: str) -> str:
        return await thinking(message)

    judged = asyncio.Event()

    async def check(task: Task) -> Alignment:
        alignment = await align_by_model(judge)(task)
        judged.set()
        return alignment

    executor = PlanExecutor(
        FunctionWorker(think=think),
        planner=planner,
        alignment=check,
        on_event=events.append,
        sleep=no_sleep,
    )
    execution = asyncio.create_task(executor.execute(wrong))
    await judged.wait()
    thinking.let("Compare the airports")
    task = await execution
    assert statuses(task) == {"1": "completed", "2": "completed", "4": "completed", "5": "completed"}
    assert "Book the flight" not in thinking.began
    assert executor.replans == 1
    reason = "the plan no longer serves the query: the query asks for a train, not for a flight"
    assert [event.message for event in events if event.kind is PlanEventKind.REPLANNING] == [reason]
    assert json.loads(planning.requests[0].messages[-1].content)["reason"] == reason
    shown = json.loads(judge.requests[0].messages[-1].content)
    assert shown["query"] == "Book a train to Rome"
    assert [entry["id"] for entry in shown["remaining"]] == ["2", "3"]
    assert shown["results"][0]["result"] == "<Find the flights to Rome>"


async def test_an_aligned_plan_goes_on() -> None:
    check = Checker()
    executor = executor_of(FunctionWorker(), reply(subtask("z")), alignment=check)
    assert done(await executor.execute(plan(*CHAIN))) == ["a", "b", "c"]
    assert (check.seen, executor.replans) == ([["a"]], 0), "when b has completed, nothing is left to begin"


async def test_nothing_waits_for_a_check() -> None:
    check, thinking = Checker(gate=asyncio.Event()), Thinking()
    executor = executor_of(FunctionWorker(think=thinking), reply(subtask("z")), alignment=check)
    execution = asyncio.create_task(executor.execute(plan(*CHAIN, subtask("d", "c"))))
    thinking.let("a", "b")
    await until(lambda: thinking.began == ["a", "b", "c"])
    assert check.seen == [["a"]], "one check at a time"
    executor.cancel()
    with pytest.raises(OperationCancelled):
        await execution
    assert check.cancelled == 1


async def test_results_during_a_check_are_covered_by_one_more() -> None:
    gate = asyncio.Event()
    check, thinking = Checker(gate=gate), Thinking()
    executor = executor_of(FunctionWorker(think=thinking), reply(subtask("z")), alignment=check)
    steps = [*CHAIN, subtask("d", "c"), subtask("e", "d")]
    execution = asyncio.create_task(executor.execute(plan(*steps)))
    thinking.let("a", "b", "c")
    await until(lambda: thinking.began == ["a", "b", "c", "d"])
    gate.set()
    await until(lambda: len(check.seen) == 2)
    thinking.let("d", "e")
    await execution
    assert (check.seen, check.most) == ([["a"], ["a", "b", "c"]], 1)


async def test_the_end_does_not_wait_for_a_check_in_progress() -> None:
    check = Checker(["it misses the point"], gate=asyncio.Event())
    executor = executor_of(FunctionWorker(), reply(subtask("d", "c")), alignment=check)
    assert done(await executor.execute(plan(*CHAIN))) == ["a", "b", "c"]
    assert (executor.replans, check.cancelled) == (0, 1)


async def test_a_pause_holds_up_the_replan_and_no_check() -> None:
    gate = asyncio.Event()
    check, thinking = Checker(["no"], gate=gate), Thinking()
    executor = executor_of(FunctionWorker(think=thinking), reply(subtask("z")), alignment=check)
    execution = asyncio.create_task(executor.execute(plan(*CHAIN)))
    thinking.let("a", "z")
    await until(lambda: len(check.seen) == 1)
    executor.pause()
    gate.set()
    thinking.let("b")
    await until(lambda: executor.task is not None and done(executor.task) == ["a", "b"])
    assert (executor.replans, thinking.began) == (0, ["a", "b"])
    executor.resume()
    assert done(await execution) == ["a", "b", "z"]


@pytest.mark.parametrize("limits", [{"max_replans": 0}, {"max_alignment_checks": 0}])
async def test_no_check_is_made_of_what_cannot_change(limits: dict[str, int]) -> None:
    check = Checker(["no"])
    executor = executor_of(FunctionWorker(), reply(subtask("z")), alignment=check, policy=ReplanPolicy(**limits))
    assert done(await executor.execute(plan(*CHAIN))) == ["a", "b", "c"]
    assert check.seen == []


async def test_without_a_planner_no_check_is_made() -> None:
    check = Checker(["no"])
    assert done(await executor_of(FunctionWorker(), alignment=check).execute(plan(*CHAIN))) == ["a", "b", "c"]
    assert check.seen == []


async def test_after_the_last_replan_the_plan_goes_on() -> None:
    check = Checker(["no"] * 9)
    chains = [reply(subtask(f"{n}x", "a"), subtask(f"{n}y", f"{n}x"), subtask(f"{n}z", f"{n}y")) for n in range(9)]
    executor = executor_of(FunctionWorker(), *chains, alignment=check)
    task = await executor.execute(plan(*CHAIN))
    assert (executor.replans, len(check.seen)) == (MAX_REPLANS, MAX_REPLANS)
    assert {"2x", "2y", "2z"} <= set(done(task))


async def test_a_planner_without_another_plan_lets_the_plan_go_on() -> None:
    executor = executor_of(FunctionWorker(), "no", "plan", alignment=Checker(["no"]))
    assert done(await executor.execute(plan(*CHAIN))) == ["a", "b", "c"]
    assert executor.replans == 0


async def test_checks_of_a_task_are_bounded() -> None:
    check = Checker()
    chain = [subtask(str(n), *([str(n - 1)] if n else [])) for n in range(MAX_ALIGNMENT_CHECKS + 10)]
    await executor_of(FunctionWorker(), reply(subtask("z")), alignment=check).execute(plan(*chain))
    assert len(check.seen) == MAX_ALIGNMENT_CHECKS


async def test_a_check_of_a_plan_that_was_replaced_counts_no_more() -> None:
    check, thinking = Checker(["no"], gate=asyncio.Event()), Thinking()

    async def think(message: str) -> str:
        text = await thinking(message)
        if text == "<b>":
            raise InvalidArgument("it cannot be done")
        return text

    executor = executor_of(FunctionWorker(think=think), reply(subtask("z", "a")), alignment=check)
    critical = subtask("b", "a", critical=True)
    execution = asyncio.create_task(executor.execute(plan(subtask("a"), critical, subtask("c", "b"))))
    thinking.let("a")
    await until(lambda: len(check.seen) == 1)
    thinking.let("b", "z")
    assert done(await execution) == ["a", "z"]
    assert (executor.replans, check.cancelled) == (1, 1)


async def test_a_check_that_raises_lets_the_plan_go_on(caplog: pytest.LogCaptureFixture) -> None:
    async def check(task: Task) -> Alignment:
        raise ValueError("a bug of the caller")

    executor = executor_of(FunctionWorker(), reply(subtask("z")), alignment=check)
    with caplog.at_level(logging.WARNING):
        assert done(await executor.execute(plan(*CHAIN))) == ["a", "b", "c"]
    assert "the check of the plan's alignment failed: ValueError('a bug of the caller')" in caplog.text


async def test_a_check_that_cancels_itself_lets_the_plan_go_on() -> None:
    async def check(task: Task) -> Alignment:
        raise asyncio.CancelledError

    executor = executor_of(FunctionWorker(), reply(subtask("z")), alignment=check)
    assert done(await executor.execute(plan(*CHAIN))) == ["a", "b", "c"]


@in_virtual_time
async def test_a_check_that_never_ends_counts_as_aligned() -> None:
    async def check(task: Task) -> Alignment:
        await asyncio.Event().wait()
        return Alignment("too late")

    began = asyncio.get_running_loop().time()
    assert await misalignment(check, plan(*CHAIN)) == ""
    assert round(asyncio.get_running_loop().time() - began) == ALIGNMENT_TIMEOUT


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"aligned": true}', ""),
        ('Well: {"aligned": false, "problem": "it books a flight"}', "it books a flight"),
        ("I cannot tell.", ""),
        ("[false]", ""),
    ],
)
async def test_a_model_checks_the_alignment(text: str, problem: str) -> None:
    assert await align_by_model(ScriptedModel([text]))(plan(*CHAIN)) == Alignment(problem)


async def test_a_model_that_fails_counts_as_aligned(caplog: pytest.LogCaptureFixture) -> None:
    model = ScriptedModel([Unavailable("the model is down")])
    with caplog.at_level(logging.WARNING):
        assert await align_by_model(model)(plan(*CHAIN)) == Alignment()
    assert "task task-1: the model did not say whether the plan serves the query: the model is down" in caplog.text


async def test_the_offline_model_finds_every_plan_aligned() -> None:
    assert await align_by_model(create_model("offline"))(plan(*CHAIN)) == Alignment()


async def test_the_replies_of_one_step_plans_need_no_check() -> None:
    check: Any = Checker(["no"])
    executor = executor_of(FunctionWorker(), reply(subtask("z")), alignment=check)
    assert done(await executor.execute(plan(subtask("a"), subtask("b")))) == ["a", "b"]
    assert check.seen == []
